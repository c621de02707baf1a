"""The arithmetic of a machine, read off its file: the types that it multiplies and sums, and how it requantises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, IntegerType, Rounding
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights

LEAVES = (Op.SOURCE, Op.IMMEDIATE)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """What every requantising instruction of a machine can hold; constants are rounded to these widths.

    `scale_bits` are of a non-negative multiplier: a normalised one is in [2**(scale_bits - 1), 2**scale_bits).
    `shift_bits` are of a shift count, `bias_bits` of a signed bias.
    """

    scale_bits: int
    shift_bits: int
    bias_bits: int
    rounding: Rounding

    @property
    def max_shift(self) -> int:
        return min((1 << self.shift_bits) - 1, MAX_INTEGER_BITS - 1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types of activations, weights and sums, and the widths with which sums become activations again."""

    activation: IntegerType
    weight: IntegerType
    sum: IntegerType
    number: NumberFormat


def arithmetic_of(machine: Machine) -> Arithmetic:
    """The arithmetic of the machine's first matrix product: the types of its operands' and its result's elements.

    A machine without a product has what its memories hold: the narrowest integers, and the widest.
    """
    number = number_format(machine)
    for format in formats_with(machine, Role.MULTIPLIES):
        operands = systolic_activations(format), systolic_weights(format), format.destination
        found = [operand.element.type for operand in operands]
        if found[0] and found[1] and found[2]:
            return Arithmetic(found[0], found[1], found[2], number)
    held = [memory.element.type for memory in machine.memories.values() if memory.element.type]
    held = sorted(held or [DEFAULT_TYPE.element], key=lambda each: each.bits)
    return Arithmetic(held[0], held[0], held[-1], number)


def number_format(machine: Machine) -> NumberFormat:
    """The widths that every kind of requantisation of the machine can hold.

    A requantisation is `clamp(round_shift(…, shift) + zero, low, high)`, anywhere in a vector statement. Its kind is
    what it scales: sums with a bias, one value, two, or a product of two. Of each kind the widest instruction counts,
    so that another one of the same kind, or one that rounds for other purposes, changes no bits. Of all kinds the
    narrowest counts. A width that no statement has is that of the array's sums: selection finds no instruction that
    needs it, and says so.
    """
    sums = max((f.destination.element.bits for f in formats_with(machine, Role.MULTIPLIES)), default=MAX_INTEGER_BITS)
    widest: dict[tuple[int, int, bool], tuple[int, int, int]] = {}
    for format in formats_with(machine, Role.COMPUTES):
        for rounded in _requantisations(format.statement.expr):
            kind, widths = _kind_and_widths(rounded, sums)
            widest[kind] = max(widest.get(kind, widths), widths)
    scales, shifts, biases = zip(*widest.values(), (sums, MAX_INTEGER_BITS.bit_length(), sums), strict=True)
    return NumberFormat(min(scales), min(shifts), min(biases), machine.rounding)


def _requantisations(expr: Expr) -> Iterator[Expr]:
    """Every `round_shift` that a clamp closes, with an offset added or without."""
    for high in _nodes(expr, Op.MIN):
        for low in (arg for arg in high.args if arg.op is Op.MAX):
            for value in low.args:
                inner = value.args if value.op is Op.ADD else (value,)
                yield from (node for node in inner if node.op is Op.ROUND_SHIFT)


def _kind_and_widths(rounded: Expr, sums: int) -> tuple[tuple[int, int, bool], tuple[int, int, int]]:
    """(products, scales, has a bias), and the bits of its scales, shift and bias."""
    value, count = rounded.args
    products = _own_products(value)
    # A signed scale, of a difference, has one bit more than its magnitude; a plain operand is no scale.
    factors = [leaf for p in products for leaf in _leaves(p) if leaf.op is Op.IMMEDIATE or leaf.field]
    scales = [leaf.range.high.bit_length() for leaf in factors]
    biases = [min(leaf.range.bits for leaf in leaves) for p in products for leaves in _sums(p)]
    shift = count.range.high.bit_length() if count.op in LEAVES else MAX_INTEGER_BITS.bit_length()
    return (len(products), len(scales), bool(biases)), (min(scales, default=sums), shift, min(biases, default=sums))


def _own_products(value: Expr) -> list[Expr]:
    """The products that a `round_shift` scales itself, not those of a requantisation inside it."""
    if value.op is Op.ROUND_SHIFT:
        return []
    inner = [product for arg in value.args for product in _own_products(arg)]
    return [value, *inner] if value.op is Op.MUL else inner


def _nodes(expr: Expr, op: Op) -> Iterator[Expr]:
    return (node for node in walk(expr) if node.op is op)


def _leaves(expr: Expr) -> list[Expr]:
    return [arg for arg in expr.args if arg.op in LEAVES]


def _sums(product: Expr) -> Iterator[list[Expr]]:
    """The operands of each `a + bias` that is multiplied."""
    for arg in product.args:
        if arg.op is Op.ADD and len(_leaves(arg)) == 2:
            yield _leaves(arg)
