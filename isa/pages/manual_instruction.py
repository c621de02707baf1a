"""An instruction's section of the manual: its meaning, what it reads and writes, its timing and its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import FieldKind, InstructionField, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.pages.markdown import markdown_table
from tilewright.isa.templates.dma import moved_word_bytes
from tilewright.isa.templates.table import facet_of


def instruction_section(
    format: InstructionFormat, machine: Machine, costs: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The lines of the section, in Markdown."""
    facet = facet_of(format.engine.template)
    yield f"### {format.mnemonic}"
    yield ""
    if format.about:
        yield format.about
        yield ""
    length = f"{format.bits} bits in {format.bytes} bytes"
    yield f"Opcode {format.opcode}, engine `{format.engine}`, {length}. Statement: `{format.statement.text}`"
    yield ""
    yield "```text"
    yield from _meaning(format, machine)
    yield "```"
    yield ""
    yield _reads_and_writes(format, machine)
    yield ""
    yield f"Timing: {facet.timing(format, machine)}"
    yield ""
    if costs is not None:
        yield f"Cost: {costs[format.mnemonic]}"
        yield ""
    rows = facet.datapath(format, machine)
    if rows:
        yield from markdown_table(["stage", "computes", "shares its unit with"], rows)
    fields = [_field_row(field, format) for field in format.fields]
    yield from markdown_table(["bits", "field", "type", "values", "meaning"], fields)


# -- what it means -----------------------------------------------------------------------------------------------------


def _meaning(format: InstructionFormat, machine: Machine) -> Iterator[str]:
    kept = [loop.name for loop in format.loops if not loop.is_reduce]
    yield f"for all {', '.join(f'{name} < trip.{name}' for name in kept)}:"
    yield from facet_of(format.engine.template).meaning(format, machine)
    yield "where"
    for operand in format.operands:
        yield f"    {operand.name} = {_address_text(operand)}{_block_text(operand, format, machine)}"
    for loop in format.loops:
        if loop.is_reduce:
            yield f"    {loop.name} runs over 0 ≤ {loop.name} < trip.{loop.name}"


def _address_text(operand: Operand) -> str:
    moved = "".join(f" + {loop}·{operand.name}.{loop}" for loop in operand.loops)
    if operand.memory == DRAM:
        return f"dram[base of region {operand.name}.region + {operand.name}.base{moved}]"
    return f"{operand.memory}[{operand.name}.base{moved}]"


def _block_text(operand: Operand, format: InstructionFormat, machine: Machine) -> str:
    if operand.memory == DRAM:
        return f", {moved_word_bytes(format, machine)} bytes"
    if operand.block == 1:
        return ""
    each = facet_of(format.engine.template).each_word(operand, format)
    if operand.block > 2 or each:
        return f" and the {operand.block - 1} words after it{each}"
    return " and the word after it"


def _reads_and_writes(format: InstructionFormat, machine: Machine) -> str:
    read = [f"`{source.name}` ({_amount_text(source, format, machine)})" for source in format.sources]
    if format.has_accumulate:
        read.append(f"`{format.destination.name}` if `accumulate` is set")
    written = format.destination
    often = "once for each index of the loops that do not reduce" if format.reduce_loops else "in every iteration"
    return (
        f"Reads {', '.join(read) or 'nothing'}; "
        f"writes `{written.name}` ({_amount_text(written, format, machine)}) {often}."
    )


def _amount_text(operand: Operand, format: InstructionFormat, machine: Machine) -> str:
    if operand.memory == DRAM:
        return f"{moved_word_bytes(format, machine)} bytes of DRAM"
    read_as = "" if operand.element == machine.memories[operand.memory].element else f" as {operand.element.type}"
    return f"{operand.block} word{'s' if operand.block > 1 else ''} of {operand.memory}{read_as}"


# -- its fields --------------------------------------------------------------------------------------------------------


def _field_row(field: InstructionField, format: InstructionFormat) -> tuple[str, ...]:
    high = field.low_bit + field.type.bits - 1
    bits = str(high) if high == field.low_bit else f"{high}:{field.low_bit}"
    values = str(format.opcode) if field.kind is FieldKind.OPCODE else f"{field.low} … {field.high}"
    return bits, f"`{field.name}`", str(field.type), values, _field_text(field, format)


def _field_text(field: InstructionField, format: InstructionFormat) -> str:
    first, _, second = field.name.partition(".")
    match field.kind:
        case FieldKind.OPCODE:
            return format.mnemonic
        case FieldKind.WAIT:
            return f"completed instructions of {second} before the start"
        case FieldKind.TRIP:
            is_summed = second in format.reduce_loops and _sums(format)
            return f"iterations of {second}" + (", summed over" if is_summed else "")
        case FieldKind.REGION:
            return f"DRAM region of {first}"
        case FieldKind.BASE:
            return f"first {'byte' if format.operand(first).memory == DRAM else 'word'} of {first}"
        case FieldKind.STRIDE:
            return f"{'bytes' if format.operand(first).memory == DRAM else 'words'} that {first} moves with {second}"
        case FieldKind.IMMEDIATE:
            return "immediate"
        case FieldKind.FLAG:
            return f"add to the old value of {format.destination.name}"
        case _:
            assert_never(field.kind)


def _sums(format: InstructionFormat) -> bool:
    return format.statement.reduction is not None and format.statement.reduction.op is Op.SUM
