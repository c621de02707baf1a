"""The bits of an instruction that a queue keeps: those of the fields that someone behind it still reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Value

from tilewright.isa.machine.encoding import FieldKind, InstructionField, InstructionFormat


@dataclass(frozen=True, slots=True)
class KeptBits:
    """Places of an instruction's bits, lowest first, and `ones`: the places of others that are 1 in all that come."""

    places: tuple[int, ...]
    ones: tuple[int, ...]
    instruction_bits: int

    def pack(self, bits: Value) -> Value:
        """The bits to keep, side by side."""
        return Cat(bits[run.start : run.stop] for run in _runs(self.places))

    def unpack(self, kept: Value) -> Value:
        """The instruction again; zeros where nobody looks."""
        parts: list[Value] = []
        position = end = 0
        for run in [*_runs(self.places), range(self.instruction_bits, self.instruction_bits)]:
            parts.append(Const(sum(1 << one - end for one in self.ones if end <= one < run.start), run.start - end))
            parts.append(kept[position : position + len(run)])
            position, end = position + len(run), run.stop
        return Cat(part for part in parts if len(part))


def kept_bits(
    formats: Sequence[InstructionFormat],
    instruction_bits: int,
    wanted: Callable[[InstructionFormat, InstructionField], bool] = lambda format, field: True,
) -> KeptBits:
    """Those of the wanted fields of any of the formats; of the opcode only what tells these formats apart.

    Opcodes 4 (100) and 6 (110): bit 1 is kept, bit 2 is one that is 1 in both.
    """
    places = set()
    for format in formats:
        for field in format.fields:
            if field.kind is not FieldKind.OPCODE and wanted(format, field):
                places |= set(range(field.low_bit, field.low_bit + field.type.bits))
    opcodes = [format.opcode for format in formats]
    always, ever = _all_of(opcodes), _any_of(opcodes)
    places |= {place for place in range(ever.bit_length()) if (ever & ~always) >> place & 1}
    ones = tuple(place for place in range(always.bit_length()) if always >> place & 1)
    return KeptBits(tuple(sorted(places)), ones, instruction_bits)


def _runs(places: Sequence[int]) -> list[range]:
    """Ascending places as ranges: a value of few parts is sliced much faster than one of single bits."""
    runs: list[range] = []
    for place in places:
        if runs and runs[-1].stop == place:
            runs[-1] = range(runs[-1].start, place + 1)
        else:
            runs.append(range(place, place + 1))
    return runs


def _all_of(numbers: Sequence[int]) -> int:
    """The bits that are set in every number."""
    found = -1 if numbers else 0
    for number in numbers:
        found &= number
    return found


def _any_of(numbers: Sequence[int]) -> int:
    """The bits that are set in some number."""
    found = 0
    for number in numbers:
        found |= number
    return found
