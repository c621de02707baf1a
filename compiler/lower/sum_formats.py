"""How a machine adds up sums that its array made in parts, read off its statements of two forms.

*Pieces* of sums that its accumulators would not hold whole: `sum(a)` in a vector instruction whose result goes
elsewhere than where `a` is from, the memory that the array's sums are in. It goes to activations, as in
`clamp(round_shift((sum(a) + p.bias) * p.scale, p.shift) + zero, low, high)`, or to a memory of more bits, as in
`wrap(sum(a), wide)`.

*Blocks* of weights, whose sums are each times the block's scale: `wrap(sum(a * w), acc)` of a vector instruction, or
`wrap(round_shift(sum(a * w), shift), acc)` with an immediate `shift`. `a` is read from the memory that the array's sums
are in, `w` from another one, and the result goes where `a` is from.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

MAX_VALUE = (1 << (MAX_INTEGER_BITS - 2)) - 1
"""How large a sum may be before it is shifted: half of what a statement's values may be, since shifts round."""


@dataclass(frozen=True, slots=True)
class SumsMemory:
    """The memory that the array leaves sums in: its words, and the most of them that a weight tile gives."""

    words: int
    tile_words: int


def sums_memory(machine: Machine, memory: str) -> SumsMemory:
    """A memory that the array writes."""
    products = formats_with(machine, Role.MULTIPLIES)
    return SumsMemory(machine.memories[memory].depth, max(each.destination.block for each in products))


@dataclass(frozen=True, slots=True)
class PiecesFormat:
    """The memory that pieces of sums are in, and how many of them one instruction adds up."""

    memory: SumsMemory
    most: int


def pieces_format(machine: Machine) -> PiecesFormat | None:
    """That of the first instruction that adds up sums of the array in more bits than one has; None if none does."""
    homes = {format.destination.memory for format in formats_with(machine, Role.MULTIPLIES)}
    for format in formats_with(machine, Role.COMPUTES):
        home = _added_up(format)
        if home is not None and home in homes:
            return PiecesFormat(
                sums_memory(machine, home), max(1 << loop.bits for loop in format.loops if loop.is_reduce)
            )
    return None


def _added_up(format: InstructionFormat) -> str | None:
    """The memory whose elements an instruction adds up, if the result does not go back there, where it may not fit."""
    for node in walk(format.statement.expr):
        if node.op is Op.SUM and node.args[0].op is Op.SOURCE and not node.args[0].field:
            memory = format.operand(node.args[0].name).memory
            return memory if format.destination.memory != memory else None
    return None


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """The type of a block's scale, and the memory of sums.

    `most` is how large a sum with its bias may be, for all instructions that make something else of it. `most_before`
    is that before the sum is shifted, by `most_shift` at most: 0 where the statement has no shift.
    """

    scale: IntegerType
    memory: SumsMemory
    most: int
    most_before: int
    most_shift: int


def block_format(machine: Machine) -> BlockFormat | None:
    """The format of the machine's first instruction of this form; None if it has none."""
    homes = {format.destination.memory for format in formats_with(machine, Role.MULTIPLIES)}
    for format in formats_with(machine, Role.COMPUTES):
        scale = _scale(format, homes)
        if scale is not None:
            memory = sums_memory(machine, format.destination.memory)
            most, shift = _most(machine, format.statement.expr.range.high), _shift(format.statement.expr)
            before, most_shift = (most, 0) if shift is None else (MAX_VALUE, shift.range.high)
            return BlockFormat(scale, memory, most, before, most_shift)
    return None


def _scale(format: InstructionFormat, homes: set[str]) -> IntegerType | None:
    """The type of the factor that is not a sum, if the statement has the form."""
    product = _summed(format.statement.expr)
    if product is None or product.op is not Op.MUL or any(leaf.op is not Op.SOURCE for leaf in product.args):
        return None
    sums, scales = (format.operand(leaf.name) for leaf in product.args)
    return scales.element.type if sums.memory == format.destination.memory in homes - {scales.memory} else None


def _most(machine: Machine, held: int) -> int:
    """The least of `held` and of what `wrap(a + p.bias, …)` leaves of a sum and its bias, wherever that is.

    Where such a sum is a factor, only as much counts as leaves room for any bias: it is of another channel, maybe.
    """
    most = held
    for format in formats_with(machine, Role.COMPUTES):
        nodes = list(walk(format.statement.expr))
        factors = [arg for node in nodes if node.op is Op.MUL for arg in node.args]
        for node in nodes:
            added = node.args[0].args if node.op is Op.WRAP and node.args[0].op is Op.ADD else ()
            biases = [leaf.range.high for leaf in added if leaf.op is Op.SOURCE and leaf.field]
            if biases:
                most = min(most, node.range.high - (max(biases) if node in factors else 0))
    return most


def _summed(expr: Expr) -> Expr | None:
    """x of `wrap(sum(x))` and of `wrap(round_shift(sum(x), shift))`."""
    if expr.op is not Op.WRAP:
        return None
    total = expr.args[0] if _shift(expr) is None else expr.args[0].args[0]
    return total.args[0] if total.op is Op.SUM else None


def _shift(wrap: Expr) -> Expr | None:
    """The immediate by which a sum is shifted before it is wrapped; None where it is not."""
    (value,) = wrap.args
    is_shifted = value.op is Op.ROUND_SHIFT and value.type is None and value.args[1].op is Op.IMMEDIATE
    return value.args[1] if is_shifted else None
