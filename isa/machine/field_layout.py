"""Where the fields of an instruction are: one after the other, each as wide as its loop, memory or type asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE, OPCODE_BITS, FieldKind, InstructionField, Loop, Operand
from tilewright.isa.machine.memory import DRAM


def lay_out_fields(
    opcode: int,
    wait_engines: Iterable[str],
    wait_bits: int,
    loops: tuple[Loop, ...],
    operands: tuple[Operand, ...],
    address_bits: Mapping[str, int],
    region_bits: int,
    immediates: Mapping[str, IntegerType],
    has_accumulate: bool,
    widths: Mapping[str, int],
) -> tuple[InstructionField, ...]:
    """Place an instruction's fields one after the other; `widths` overrides the derived width of a named field."""

    def wanted() -> Iterator[tuple[str, FieldKind, IntegerType, int]]:
        yield OPCODE, FieldKind.OPCODE, IntegerType(OPCODE_BITS, False), 0
        for engine in wait_engines:
            yield f"wait.{engine}", FieldKind.WAIT, IntegerType(wait_bits, False), 0
        for loop in loops:
            yield f"trip.{loop.name}", FieldKind.TRIP, IntegerType(loop.bits, False), 1
        for operand in operands:
            address = address_bits[operand.memory]
            if operand.memory == DRAM:
                yield f"{operand.name}.region", FieldKind.REGION, IntegerType(region_bits, False), 0
            yield f"{operand.name}.base", FieldKind.BASE, IntegerType(address, False), 0
            for loop_name in operand.loops:
                yield f"{operand.name}.{loop_name}", FieldKind.STRIDE, IntegerType(address + 1, True), 0
        for name, immediate_type in immediates.items():
            yield name, FieldKind.IMMEDIATE, immediate_type, 0
        if has_accumulate:
            yield ACCUMULATE, FieldKind.FLAG, IntegerType(1, False), 0

    fields, low_bit = [], 0
    for name, kind, field_type, stored_minus in wanted():
        placed = IntegerType(widths.get(name, field_type.bits), field_type.is_signed)
        fields.append(InstructionField(name, kind, placed, low_bit, stored_minus))
        low_bit += placed.bits
    return tuple(fields)
