"""How a machine adds up pieces of sums that its accumulators would not hold whole, read off its statements.

The form is `sum(a)` in a vector instruction whose result goes elsewhere than where `a` is from, the memory that the
array's sums are in: to activations, as in `clamp(round_shift((sum(a) + p.bias) * p.scale, p.shift) + zero, low, high)`,
or to a memory of more bits, as in `wrap(sum(a), wide)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine


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
