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
        return Cat(bits[place] for place in self.places)

    def unpack(self, kept: Value) -> Value:
        """The instruction again; zeros where nobody looks."""
        where = {place: position for position, place in enumerate(self.places)}
        return Cat(
            kept[where[place]] if place in where else Const(place in self.ones, 1)
            for place in range(self.instruction_bits)
        )


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
