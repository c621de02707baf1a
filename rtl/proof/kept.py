"""What a queue keeps of an instruction is every field that is read behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import z3

from tilewright.isa.machine.encoding import OPCODE, InstructionField, InstructionFormat
from tilewright.rtl.kept_bits import KeptBits
from tilewright.rtl.proof.logic import all_of


def restored(kept: z3.BitVecRef, bits: KeptBits) -> z3.BitVecRef:
    """The instruction of an entry: its bits at their places, the ones that all instructions have, zeros elsewhere."""
    parts = [z3.BitVecVal(place in bits.ones, 1) for place in range(bits.instruction_bits)]
    for position, place in enumerate(bits.places):
        parts[place] = z3.Extract(position, position, kept)
    return z3.simplify(z3.Concat(*reversed(parts)))


def keeps_fields(
    formats: Sequence[InstructionFormat],
    instruction: z3.BitVecRef,
    entry: z3.BitVecRef,
    wanted: Callable[[InstructionFormat, InstructionField], bool] = lambda format, field: True,
) -> z3.BoolRef:
    """An instruction of one of the formats has the same opcode and wanted fields in its entry, which is `restored`."""
    claims = []
    for format in formats:
        opcode = format.field(OPCODE)
        fields = [opcode, *(field for field in format.fields if wanted(format, field))]
        same = all_of(*(_field(entry, field) == _field(instruction, field) for field in fields))
        claims.append(z3.Implies(_field(instruction, opcode) == format.opcode, same))
    return all_of(*claims)


def _field(bits: z3.BitVecRef, field: InstructionField) -> z3.BitVecRef:
    return z3.Extract(field.low_bit + field.type.bits - 1, field.low_bit, bits)
