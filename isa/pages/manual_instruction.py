"""An instruction's section of the manual: its meaning, what it reads and writes, its timing and its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tilewright.isa.engines.datapath_schedule import bind, schedule
from tilewright.isa.engines.templates import is_transposing, systolic_activations, systolic_weights, tile_loops
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import FieldKind, InstructionField, InstructionFormat, Operand
from tilewright.isa.machine.engine import Dma, Systolic, Template, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.pages.markdown import markdown_table
from tilewright.isa.pages.mathematics import statement_mathematics
from tilewright.isa.timing import (
    MMA_UPDATE,
    MMA_WEIGHT_LEAD,
    mma_write,
    pipeline_nodes,
    statement_stages,
    vec_write,
)


def instruction_section(
    format: InstructionFormat, machine: Machine, costs: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The lines of the section, in Markdown."""
    yield f"### {format.mnemonic}"
    yield ""
    if format.about:
        yield format.about
        yield ""
    yield f"Opcode {format.opcode}, engine `{format.engine}`, {format.bits} bits. Statement: `{format.statement.text}`"
    yield ""
    yield "```text"
    yield from _meaning(format, machine)
    yield "```"
    yield ""
    yield _reads_and_writes(format, machine)
    yield ""
    yield f"Timing: {_timing(format, machine)}"
    yield ""
    if costs is not None:
        yield f"Cost: {costs[format.mnemonic]}"
        yield ""
    if format.engine.template is Template.VECTOR:
        yield from _datapath(format, machine)
    rows = [_field_row(field, format) for field in format.fields]
    yield from markdown_table(["bits", "field", "type", "values", "meaning"], rows)


# -- what it means -----------------------------------------------------------------------------------------------------


def _meaning(format: InstructionFormat, machine: Machine) -> Iterator[str]:
    kept = [loop.name for loop in format.loops if not loop.is_reduce]
    yield f"for all {', '.join(f'{name} < trip.{name}' for name in kept)}:"
    match format.engine.template:
        case Template.DMA:
            yield f"    {format.destination.name} ← {format.sources[0].name}, byte for byte"
        case Template.SYSTOLIC:
            a, w = systolic_activations(format).name, systolic_weights(format).name
            element = "col, row" if is_transposing(format) else "row, col"
            old = f"{format.destination.name}[col] · accumulate + " if format.has_accumulate else ""
            wraps = next(node for node in walk(format.statement.expr) if node.op is Op.WRAP)
            yield f"  for all col < {machine.array.cols}:"
            yield (
                f"    {format.destination.name}[col] ← wrap_{wraps.type}({old}Σ[{', '.join(format.reduce_loops)}, "
                f"row < {machine.array.rows}] {a}[row] · {w}[{element}])"
            )
        case Template.VECTOR:
            yield f"  in each of {machine.vector.lanes} lanes:"
            yield f"    {statement_mathematics(format)}"
        case template:
            assert_never(template)
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
        return f", {_word_bytes(format, machine)} bytes"
    if operand.block == 1:
        return ""
    if format.engine.template is Template.SYSTOLIC and operand is systolic_weights(format):
        side = "column" if is_transposing(format) else "row"
        return f" and the {operand.block - 1} words after it, one for each {side} of the array"
    return f" and the {operand.block - 1} words after it" if operand.block > 2 else " and the word after it"


def _word_bytes(format: InstructionFormat, machine: Machine) -> int:
    """Bytes of the word that a DMA instruction moves in one iteration."""
    on_chip = next(operand for operand in format.operands if operand.memory != DRAM)
    return machine.memories[on_chip.memory].word_bytes


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
        return f"{_word_bytes(format, machine)} bytes of DRAM"
    return f"{operand.block} word{'s' if operand.block > 1 else ''} of {operand.memory}"


# -- how long it takes, and in what hardware ---------------------------------------------------------------------------


def _timing(format: InstructionFormat, machine: Machine) -> str:
    match format.engine.settings:
        case Vector():
            return (
                "let N be the number of iterations (the product of the trip counts). They occupy the engine for N "
                f"cycles. The datapath has {statement_stages(format.statement.expr)} stages for this statement. "
                f"Without port conflicts, the instruction completes N + {vec_write(format) + 1} cycles after its start."
            )
        case Systolic(rows):
            count = tile_loops(format)
            tiles = "·".join(f"trip.{loop.name}" for loop in format.loops[:count]) or "1"
            vectors = "·".join(f"trip.{loop.name}" for loop in format.loops[count:]) or "1"
            least = max(rows, MMA_UPDATE, MMA_WEIGHT_LEAD + 1)
            return (
                f"there are T = {tiles} weight tiles of V = {vectors} vectors. A tile takes max(V, {least}) cycles, "
                f"so the array is never idle between tiles if V ≥ {least}. Without port conflicts, the instruction "
                f"completes (T - 1) · max(V, {least}) + V + {MMA_WEIGHT_LEAD + mma_write(machine) + 1} cycles after "
                "its start."
            )
        case Dma(contexts=contexts):
            word = _word_bytes(format, machine)
            return (
                f"at most one word ({word} bytes) and one bus beat ({machine.dram.bus_bytes} bytes) in each cycle. If "
                f"the last loop moves by {word} bytes in DRAM, its iterations share bursts. Otherwise, each word has "
                f"bursts of its own. The first beat comes at least {machine.dram.latency_cycles} cycles after its "
                f"request. Up to {contexts} instructions are under way at the same time."
            )
        case _ as never:
            assert_never(never)


def _datapath(format: InstructionFormat, machine: Machine) -> Iterator[str]:
    """The operators of a vector statement by stage, and the instructions that use the same unit."""
    formats = machine.formats_of(format.engine)
    said = {new: old for old, new in pipeline_nodes(format.statement.expr).items()}
    rows = []
    for unit in bind(schedule(formats)):
        for operation in unit.operations:
            if formats[operation.format] is format:
                others = [formats[other.format].mnemonic for other in unit.operations if other is not operation]
                first, last = operation.stage + 1, operation.done_stage
                stages = f"{first} to {last}" if first < last else str(last)
                computes = said.get(operation.expr, operation.expr)
                rows.append((operation.stage, [stages, f"`{computes}`", ", ".join(others) or "none"]))
    if rows:
        rows.sort(key=lambda row: row[0])
        yield from markdown_table(["stage", "computes", "shares its unit with"], [row for _, row in rows])


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
