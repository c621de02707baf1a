"""What a machine computes with, read off its file: the types that it multiplies and sums, and how it requantises.

Also which products its instructions add up, and how many words lie together for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, Named
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, IntegerType, Rounding, type_of
from tilewright.isa.language.operations import ACROSS_LANES, OVER_WORDS, REDUCTIONS, Op, combining
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.machine.products import adds_product
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types of activations, weights and sums; how integers of one type become those of another; and tables."""

    activation: IntegerType
    weight: IntegerType
    sum: IntegerType
    rounding: Rounding
    widths: Mapping[Types, NumberFormat]
    narrowest: NumberFormat  # of all these
    tables: frozenset[IntegerType]  # what instructions look up

    def requantization(self, of: IntegerType, to: IntegerType) -> NumberFormat:
        """The widths that instructions have which make integers of a type of those of another.

        Where there is none, those that all requantising instructions have: one of these may serve.
        """
        return self.widths.get((of, to), self.narrowest)

    def entries(self, index: IntegerType) -> int:
        """How many entries the tables have in which instructions look integers of a type up; 0 if none does."""
        return index.count if index in self.tables else 0


def arithmetic_of(machine: Machine) -> Arithmetic:
    """The arithmetic of the machine's first matrix product: the types of its operands' and its result's elements.

    A machine without a product has what its memories hold: the narrowest integers, and the widest.
    """
    activation, weight, sums = _types(machine)
    widths = widths_by_types(machine, sums)
    tables = frozenset(_tables(machine))
    return Arithmetic(activation, weight, sums, machine.rounding, widths, narrowest(widths.values(), machine), tables)


def _types(machine: Machine) -> tuple[IntegerType, IntegerType, IntegerType]:
    """Those of activations, weights and sums."""
    for format in formats_with(machine, Role.MULTIPLIES):
        operands = systolic_activations(format), systolic_weights(format), format.destination
        found = [operand.element.type for operand in operands]
        if found[0] and found[1] and found[2]:
            return found[0], found[1], found[2]
    held = [memory.element.type for memory in machine.memories.values() if memory.element.type]
    held = sorted(held or [DEFAULT_TYPE.element], key=lambda each: each.bits)
    return held[0], held[0], held[-1]


def _tables(machine: Machine) -> Iterator[IntegerType]:
    """The types of integers that have a table with an entry for each."""
    for format in formats_with(machine, Role.COMPUTES):
        for node in _nodes(format.statement.expr, Op.LUT):
            index = type_of(node.args[0].range)
            if format.operand(node.name).block == index.count:
                yield index


LEAVES = (Op.SOURCE, Op.IMMEDIATE)

ROUNDED = (Op.ROUND_SHIFT, Op.NEAREST)
"""Operations that scale by a power of two and round, to an integer or to a float."""

SUMMING = frozenset(op for op in REDUCTIONS | OVER_WORDS | ACROSS_LANES if combining(op) is Op.ADD)

Types = tuple[IntegerType, IntegerType]
"""What is scaled, and what it becomes."""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """What requantising instructions can hold; constants are rounded to these widths.

    `scale_bits` are of a non-negative multiplier: a normalised one is in [2**(scale_bits - 1), 2**scale_bits).
    `shift_bits` are of a shift count, `bias_bits` of a signed bias.
    """

    scale_bits: int
    shift_bits: int
    bias_bits: int
    rounding: Rounding

    @property
    def scale(self) -> IntegerType:
        return IntegerType(self.scale_bits, False)

    @property
    def shift(self) -> IntegerType:
        return IntegerType(self.shift_bits, False)

    @property
    def bias(self) -> IntegerType:
        return IntegerType(self.bias_bits, True)

    @property
    def max_shift(self) -> int:
        return min(self.shift.interval.high, MAX_INTEGER_BITS - 1)


def widths_by_types(machine: Machine, sums: IntegerType) -> dict[Types, NumberFormat]:
    """The widths that every kind of requantisation between two types can hold.

    A requantisation is `clamp(round_shift(…, shift) + zero, low, high)`, or `clamp(nearest(…, shift, of), low, high)`
    of floats, anywhere in a vector statement. Its kind is what it scales: sums with a bias, one value, two, or a
    product of two. Of each kind the widest instruction counts, so that another one of the same kind, or one that rounds
    for other purposes, changes no bits. Of all kinds the narrowest counts. A width that no statement has is that of the
    array's sums, of a bias that of the widest parameter, if that is more: selection finds no instruction that needs it,
    and says so.
    """
    limits = _without_fields(machine)
    widest: dict[Types, dict[_Kind, NumberFormat]] = {}
    for format in formats_with(machine, Role.COMPUTES):
        for rounded in _requantisations(format.statement.expr):
            to = format.destination.element.type
            assert to is not None, f"{format.mnemonic} writes a structure"
            kinds = widest.setdefault((_scaled_type(rounded, format, sums, to), to), {})
            kind, widths = _kind_and_widths(rounded, limits)
            kinds[kind] = max(kinds.get(kind, widths), widths, key=_as_tuple)
    return {types: _narrowest(kinds.values(), limits) for types, kinds in widest.items()}


_Kind = tuple[int, int, bool]
"""Products, scales, and whether there is a bias."""


def _without_fields(machine: Machine) -> NumberFormat:
    """The widths where no statement has any."""
    made = [format.destination.element.type for format in formats_with(machine, Role.MULTIPLIES)]
    sums = max((each.bits for each in made if each is not None), default=MAX_INTEGER_BITS)
    fields = [field.type.bits for memory in machine.memories.values() for field in memory.element.fields]
    return NumberFormat(sums, MAX_INTEGER_BITS.bit_length(), max(sums, *fields, 0), machine.rounding)


def narrowest(found: Iterable[NumberFormat], machine: Machine) -> NumberFormat:
    """The widths that all of some hold."""
    return _narrowest(found, _without_fields(machine))


def _narrowest(found: Iterable[NumberFormat], limits: NumberFormat) -> NumberFormat:
    scales, shifts, biases = zip(*map(_as_tuple, (*found, limits)), strict=True)
    return NumberFormat(min(scales), min(shifts), min(biases), limits.rounding)


def _as_tuple(number: NumberFormat) -> tuple[int, int, int]:
    return number.scale_bits, number.shift_bits, number.bias_bits


def _scaled_type(rounded: Expr, format: InstructionFormat, sums: IntegerType, to: IntegerType) -> IntegerType:
    """The type of what a `round_shift` scales: sums, the widest operand, or what a requantisation inside it made."""
    inside = list(_outside_of_rounding(rounded.args[0]))
    if any(node.op in SUMMING for node in inside):
        return sums
    reads = (format.operand(node.name).element.type for node in inside if node.op is Op.SOURCE and not node.field)
    return max((read for read in reads if read is not None), key=lambda each: each.bits, default=to)


def _outside_of_rounding(expr: Expr) -> Iterator[Expr]:
    """An expression's nodes, without those of requantisations in it."""
    if expr.op not in ROUNDED:
        yield expr
        for arg in expr.args:
            yield from _outside_of_rounding(arg)


def _requantisations(expr: Expr) -> Iterator[Expr]:
    """Every `round_shift` that a clamp closes, with an offset added or without."""
    for high in _nodes(expr, Op.MIN):
        for low in (arg for arg in high.args if arg.op is Op.MAX):
            for value in low.args:
                inner = value.args if value.op in (Op.ADD, Op.STEPS) else (value,)
                yield from (node for node in inner if node.op in ROUNDED)


def _kind_and_widths(rounded: Expr, limits: NumberFormat) -> tuple[_Kind, NumberFormat]:
    value, count = rounded.args
    products = _own_products(value)
    # A signed scale, of a difference, has one bit more than its magnitude; a plain operand is no scale.
    factors = [leaf for p in products for leaf in _parameters(_leaves(p))]
    scales = [leaf.range.high.bit_length() for leaf in factors]
    biases = [min(leaf.range.bits for leaf in _parameters(leaves) or leaves) for p in products for leaves in _sums(p)]
    shift = count.range.high.bit_length() if count.op in LEAVES else limits.shift_bits
    scale, bias = min(scales, default=limits.scale_bits), min(biases, default=limits.bias_bits)
    return (len(products), len(scales), bool(biases)), NumberFormat(scale, shift, bias, limits.rounding)


def _own_products(value: Expr) -> list[Expr]:
    """The products that a `round_shift` scales itself, not those of a requantisation inside it."""
    if value.op in ROUNDED:
        return []
    inner = [product for arg in value.args for product in _own_products(arg)]
    return [value, *inner] if value.op is Op.MUL else inner


def _nodes(expr: Expr, op: Op) -> Iterator[Expr]:
    return (node for node in walk(expr) if node.op is op)


def _parameters(leaves: Sequence[Expr]) -> list[Expr]:
    """Those that are constants of a layer: immediates, and fields of structures."""
    return [leaf for leaf in leaves if leaf.op is Op.IMMEDIATE or leaf.field]


def _leaves(expr: Expr) -> list[Expr]:
    return [arg for arg in expr.args if arg.op in LEAVES]


def _sums(product: Expr) -> Iterator[list[Expr]]:
    """The operands of each `a + bias` that is multiplied, as it is or wrapped."""
    for arg in (arg.args[0] if arg.op is Op.WRAP else arg for arg in product.args):
        if arg.op is Op.ADD and len(_leaves(arg)) == 2:
            yield _leaves(arg)


Integers = NDArray[np.int64]


def normalized(factors: NDArray[np.float64], number: NumberFormat, place: str | Named) -> tuple[Integers, Integers]:
    """Scale and shift of each factor; scales are in [2**(bits - 1), 2**bits), or less where the shift is at its end.

    Example with 16 bits: 0.3 → 39322 / 2**17; 0 → 0 / 2**0. Raises CompileError for a factor that is too large,
    negative, or no number.
    """
    in_range = f"0 to {(1 << number.scale_bits) - 1}: the result's scale is far too small"
    if not np.isfinite(factors).all():
        worst = float(factors[~np.isfinite(factors)][0])
        raise CompileError(place, f"the scales give the factor {worst:g}", expected="scales that are finite")
    _, exponents = np.frexp(factors)
    shifts = number.scale_bits - exponents.astype(np.int64)
    shifts -= np.rint(np.ldexp(factors, shifts)) >= 1 << number.scale_bits  # 0.99999 rounds to the next power of two
    shifts = np.where(factors == 0, 0, np.minimum(shifts, number.max_shift))
    if np.any(factors < 0) or np.any(shifts < 0):
        worst = float(factors[np.argmin(shifts)])
        raise CompileError(place, f"the scales give the factor {worst:g}", expected=in_range)
    return np.rint(np.ldexp(factors, shifts)).astype(np.int64), shifts


def with_common_shift(a: float, b: float, number: NumberFormat, place: str | Named) -> tuple[int, int, int]:
    """Scales of two factors and their one shift; the larger factor has a normalised scale."""
    _, shifts = normalized(np.array([np.maximum(a, b)]), number, place)
    shift = int(shifts[0])
    return round(math.ldexp(a, shift)), round(math.ldexp(b, shift)), shift


# -- sums of products, and words that lie together ---------------------------------------------------------------------


def vector_blocks(machine: Machine) -> int:
    """Words of one pixel that the machine's matrix product takes in one access; 1 if it has none."""
    return max((systolic_activations(format).block for format in _products(machine)), default=1)


def adds_to_sums(machine: Machine) -> bool:
    """Whether every matrix product of the machine can add to sums that are there, and so several make one sum."""
    return all(format.mnemonic in machine.continuing for format in _products(machine))


def adds_scaled(machine: Machine) -> bool:
    """Whether the machine has a matrix product, and an instruction that adds two tensors with a scale each."""
    return bool(_products(machine)) and any(
        node.op is Op.ROUND_SHIFT and _is_scaled_sum(node.args[0])
        for format in machine.formats.values()
        for node in walk(format.statement.expr)
    )


def turns_by_picking(machine: Machine) -> bool:
    """Whether the machine multiplies two computed tensors, and has no product that reads one of them transposed.

    Then only products with constants can exchange a tensor's channels with its pixels.
    """
    computed = [format for format in _products(machine) if _takes_computed(format, machine)]
    return bool(computed) and not any(map(is_transposing, computed))


def _takes_computed(format: InstructionFormat, machine: Machine) -> bool:
    """Whether the words of activations are rows of an instruction's weight tiles."""
    weights = systolic_weights(format)
    is_word = machine.memories[weights.memory].width == machine.lanes
    return is_word and weights.element == systolic_activations(format).element


def _is_scaled_sum(expr: Expr) -> bool:
    """Whether an expression adds products with two sources."""
    if expr.op is not Op.ADD or any(arg.op is not Op.MUL for arg in expr.args):
        return False
    return all(any(node.op is Op.SOURCE for node in walk(arg)) for arg in expr.args)


def _products(machine: Machine) -> list[InstructionFormat]:
    formats = [format for format in machine.formats.values() if format.statement.dot is not None]
    return [format for format in formats if adds_product(format) is None]


def longest_buffer(memory: Memory, alignment: int) -> int:
    """The largest buffer of aligned groups that is sure to find a place: no group may lie across two banks."""
    if memory.stretches == 1 or memory.stretch_words % alignment == 0:
        return memory.depth
    return max(0, memory.stretch_words - alignment + 1) // alignment * alignment
