"""The manual of a machine, in Markdown: memories, engines, and one section per instruction. All of it is derived.

python -m tilewright.isa.pages.manual base16 > docs/isa-base16.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import assert_never

from tilewright.isa.assembly.line import quoted
from tilewright.isa.engines.datapath_schedule import bind, schedule
from tilewright.isa.engines.templates import is_transposing, systolic_activations, systolic_weights, tile_loops
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.language.statement import Op, walk
from tilewright.isa.machine.encoding import FieldKind, InstructionField, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine, Template
from tilewright.isa.machine.memory import DRAM, REGIONS, Element
from tilewright.isa.pages.mathematics import statement_mathematics
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.timing import (
    BURST_BEATS,
    BURST_BOUNDARY_BYTES,
    LOAD_CONTEXTS,
    MMA_UPDATE,
    MMA_WEIGHT_LEAD,
    STORE_CONTEXTS,
    mma_write,
    statement_stages,
    vec_write,
)


def manual(machine: Machine) -> str:
    """The whole manual; the same machine gives the same text."""
    parts = [
        *_introduction(machine),
        *_memories(machine),
        *_engines(machine),
        *_encoding(machine),
        "## Instructions",
        "",
        *(line for of in machine.formats.values() for line in _instruction(of, machine)),
        *_faults(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


# -- the machine -------------------------------------------------------------------------------------------------------

_ROUNDINGS = {
    Rounding.EVEN: "to the even neighbour",
    Rounding.UP: "towards +∞",
    Rounding.AWAY: "away from zero",
}


def _introduction(machine: Machine) -> list[str]:
    return [
        f"# {machine.name}: instruction set",
        "",
        f"{machine.about}." if machine.about else "",
        "",
        f"Generated from the machine's YAML by `tilewright isa manual {quoted(machine.name)}`; do not edit.",
        "",
        f"The array takes vectors of {machine.rows} elements and gives {machine.cols} sums a cycle; the vector engine "
        f"works on {machine.lanes} lanes. An instruction is {machine.instruction_bytes} bytes. Identity (SHA-256 of "
        "the "
        f"canonical YAML): `{machine.hash}`.",
        "",
    ]


def _memories(machine: Machine) -> list[str]:
    rows = [
        (
            f"`{m.name}`",
            f"{m.width} × {_element_text(m.element)}",
            m.word_bytes,
            m.depth,
            f"{m.banks} of {m.bank_depth}",
            f"{m.bytes / 1024:g} KiB",
        )
        for m in machine.memories.values()
    ]
    dram = machine.dram
    return [
        "## Memories",
        "",
        *_table(["memory", "a word holds", "bytes a word", "words", "banks", "size"], rows),
        "Word w is in bank w div (words of a bank). A bank serves one read and one write a cycle. After reset all "
        "words "
        "are zero.",
        "",
        f"DRAM is byte-addressed: a region and an offset of {dram.offset_bits} bits. The regions are "
        f"{', '.join(f'{number} `{name}`' for number, name in enumerate(REGIONS))}; each has a base and a limit set by "
        f"the host. The bus moves {dram.bus_bytes} bytes a beat, in bursts of up to {BURST_BEATS} beats that do not "
        "cross a "
        f"{BURST_BOUNDARY_BYTES}-byte boundary; the memory answers {dram.latency_cycles} cycles after a request.",
        "",
    ]


def _element_text(element: Element) -> str:
    if element.type is not None:
        return str(element.type)
    parts = ", ".join(f"{f.name}: {f.type} at bit {f.low_bit}" for f in element.fields)
    return f"{{{parts}}} in {element.bits} bits"


def _engines(machine: Machine) -> list[str]:
    rows = [
        (f"`{e.name}`", e.template, ", ".join(e.reads), ", ".join(e.writes), e.queue_depth)
        for e in machine.engines.values()
    ]
    return [
        "## Engines",
        "",
        *_table(["engine", "template", "reads", "writes", "queue"], rows),
        "Each engine runs its instructions in program order and counts those that are completed. An instruction "
        "starts when "
        "each engine's count has reached the instruction's wait for it; 0 waits for nothing. A completed instruction's "
        "writes are visible. Engines overlap, and so do instructions of one engine: a read of what an earlier "
        "instruction "
        "of the same engine wrote needs a wait too, except the sums that the array adds to. A wait may only name "
        "instructions that are earlier in the program, of which an engine has at most "
        f"{machine.max_instructions_per_engine}.",
        "",
    ]


def _encoding(machine: Machine) -> list[str]:
    return [
        "## Meaning and encoding",
        "",
        "An instruction is a loop nest around one statement. For every index of the loops, the last loop fastest, it "
        "reads "
        "each source at base + Σ index · stride, evaluates the statement in every lane, and writes the destination "
        "at its "
        "own base + Σ index · stride. Addresses count words on chip and bytes in DRAM. A loop that an operand does not "
        "list leaves that operand where it is. A word that an instruction both writes and reads must be read in the "
        "same "
        "or an earlier iteration than it is written.",
        "",
        "Integers are mathematical: nothing overflows inside a statement. ⌊x⌉ is the nearest integer, ties "
        f"{_ROUNDINGS[machine.rounding]}; ⌊x⌋ rounds towards -∞; clamp(x, l, h) = min(max(x, l), h); wrap_T(x) is x "
        "modulo "
        "2^bits in the range of the type T; [a < b] is 1 if true, else 0.",
        "",
        f"An instruction is a little-endian integer of {8 * machine.instruction_bytes} bits; bits beyond its last "
        "field are 0. "
        "Trip counts are stored minus one.",
        "",
        "In assembly a line names the fields that are not at their default (trip counts 1, all else 0): "
        "`mnemonic loops(loop=trips) operand=memory[base; loop=stride] immediate=value wait(engine=count)`.",
        "",
    ]


# -- one instruction ---------------------------------------------------------------------------------------------------


def _instruction(of: InstructionFormat, machine: Machine) -> Iterator[str]:
    yield f"### {of.mnemonic}"
    yield ""
    if of.about:
        yield of.about
        yield ""
    yield f"Opcode {of.opcode}, engine `{of.engine}`, {of.bits} bits. Statement: `{of.statement.text}`"
    yield ""
    yield "```text"
    yield from _meaning(of, machine)
    yield "```"
    yield ""
    yield from _reads_and_writes(of, machine)
    yield ""
    yield f"Timing: {_timing(of, machine)}"
    yield ""
    if machine.engines[of.engine].template is Template.VECTOR:
        yield from _datapath(of, machine)
    yield from _table(["bits", "field", "type", "values", "meaning"], [_field_row(f, of) for f in of.fields])


def _datapath(of: InstructionFormat, machine: Machine) -> Iterator[str]:
    """The operators of a vector statement by stage, and the instructions that use the same unit."""
    formats = machine.formats_of(of.engine)
    rows = []
    for unit in bind(schedule(formats)):
        for operation in unit.operations:
            if formats[operation.format] is of:
                others = [formats[other.format].mnemonic for other in unit.operations if other is not operation]
                first, last = unit.stage + 1, unit.done_stage
                stages = f"{first} to {last}" if first < last else str(last)
                rows.append([stages, f"`{operation.expr}`", ", ".join(others) or "nobody"])
    if rows:
        yield from _table(["stage", "computes", "shares its unit with"], rows)


def _meaning(of: InstructionFormat, machine: Machine) -> Iterator[str]:
    kept = [loop.name for loop in of.loops if not loop.is_reduce]
    yield f"for all {', '.join(f'{name} < trip.{name}' for name in kept)}:"
    match machine.engines[of.engine].template:
        case Template.DMA:
            yield f"    {of.destination.name} ← {of.sources[0].name}, byte for byte"
        case Template.SYSTOLIC:
            a, w = systolic_activations(of).name, systolic_weights(of).name
            element = "col, row" if is_transposing(of) else "row, col"
            old = f"{of.destination.name}[col] · accumulate + " if of.has_accumulate else ""
            wraps = next(node for node in walk(of.statement.expr) if node.op is Op.WRAP)
            yield f"  for all col < {machine.cols}:"
            yield (
                f"    {of.destination.name}[col] ← wrap_{wraps.type}({old}Σ[{', '.join(of.reduce_loops)}, "
                f"row < {machine.rows}] {a}[row] · {w}[{element}])"
            )
        case Template.VECTOR:
            yield f"  in each of {machine.lanes} lanes:"
            yield f"    {statement_mathematics(of)}"
        case unknown:
            assert_never(unknown)
    yield "where"
    for operand in of.operands:
        yield f"    {operand.name} = {_address_text(operand)}{_block_text(operand, of, machine)}"
    for loop in of.loops:
        if loop.is_reduce:
            yield f"    {loop.name} runs over 0 ≤ {loop.name} < trip.{loop.name}"


def _address_text(operand: Operand) -> str:
    moved = "".join(f" + {loop}·{operand.name}.{loop}" for loop in operand.loops)
    if operand.memory == DRAM:
        return f"dram[base of region {operand.name}.region + {operand.name}.base{moved}]"
    return f"{operand.memory}[{operand.name}.base{moved}]"


def _block_text(operand: Operand, of: InstructionFormat, machine: Machine) -> str:
    if operand.memory == DRAM:
        on_chip = next(o for o in of.operands if o.memory != DRAM)
        return f", {machine.memories[on_chip.memory].word_bytes} bytes"
    if operand.block == 1:
        return ""
    if machine.engines[of.engine].template is Template.SYSTOLIC and operand is systolic_weights(of):
        side = "column" if is_transposing(of) else "row"
        return f" and the {operand.block - 1} words after it, one for each {side} of the array"
    return f" and the {operand.block - 1} words after it" if operand.block > 2 else " and the word after it"


def _reads_and_writes(of: InstructionFormat, machine: Machine) -> Iterator[str]:
    read = [f"`{o.name}` ({_moved_text(o, of, machine)})" for o in of.sources]
    if of.has_accumulate:
        read.append(f"`{of.destination.name}` if `accumulate` is set")
    reads = ", ".join(read) or "nothing"
    yield (
        f"Reads {reads}; writes `{of.destination.name}` ({_moved_text(of.destination, of, machine)}) "
        f"{'once for each index of the loops that are not reduced' if of.reduce_loops else 'in every iteration'}."
    )


def _moved_text(operand: Operand, of: InstructionFormat, machine: Machine) -> str:
    if operand.memory == DRAM:
        return f"{_block_text(operand, of, machine)[2:]} of DRAM"
    return f"{operand.block} word{'s' if operand.block > 1 else ''} of {operand.memory}"


def _timing(of: InstructionFormat, machine: Machine) -> str:
    match machine.engines[of.engine].template:
        case Template.VECTOR:
            return (
                "N iterations (the product of the trip counts) occupy the engine for N cycles. The datapath has "
                f"{statement_stages(of.statement.expr)} stages for this statement; without port conflicts the "
                f"instruction completes N + {vec_write(of) + 1} cycles after its start."
            )
        case Template.SYSTOLIC:
            count = tile_loops(of)
            tiles = "·".join(f"trip.{loop.name}" for loop in of.loops[:count]) or "1"
            vectors = "·".join(f"trip.{loop.name}" for loop in of.loops[count:]) or "1"
            least = max(machine.rows, MMA_UPDATE, MMA_WEIGHT_LEAD + 1)
            return (
                f"T = {tiles} weight tiles of V = {vectors} vectors. A tile takes max(V, {least}) cycles, so V ≥ "
                f"{least} "
                "streams without bubbles. Without port conflicts the instruction completes "
                f"(T - 1) · max(V, {least}) + V + {MMA_WEIGHT_LEAD + mma_write(machine) + 1} cycles after its start."
            )
        case Template.DMA:
            on_chip = next(o for o in of.operands if o.memory != DRAM)
            word = machine.memories[on_chip.memory].word_bytes
            contexts = {"load": LOAD_CONTEXTS, "store": STORE_CONTEXTS}[of.engine]
            return (
                f"at most one word ({word} bytes) and one bus beat ({machine.dram.bus_bytes} bytes) a cycle. "
                "Iterations whose "
                f"last loop moves by {word} bytes in DRAM are one run of bursts, other words are bursts of their "
                "own. The "
                f"first beat comes at least {machine.dram.latency_cycles} cycles after its request; up to {contexts} "
                "instructions are under way at a time."
            )
        case unknown:
            assert_never(unknown)


def _field_row(field: InstructionField, of: InstructionFormat) -> tuple[str, ...]:
    high = field.low_bit + field.type.bits - 1
    bits = str(high) if high == field.low_bit else f"{high}:{field.low_bit}"
    values = str(of.opcode) if field.kind is FieldKind.OPCODE else f"{field.low} … {field.high}"
    return bits, f"`{field.name}`", str(field.type), values, _field_text(field, of)


def _field_text(field: InstructionField, of: InstructionFormat) -> str:
    first, _, second = field.name.partition(".")
    match field.kind:
        case FieldKind.OPCODE:
            return of.mnemonic
        case FieldKind.WAIT:
            return f"completed instructions of {second} before the start"
        case FieldKind.TRIP:
            return f"iterations of {second}" + (", summed over" if second in of.reduce_loops and _sums(of) else "")
        case FieldKind.REGION:
            return f"DRAM region of {first}"
        case FieldKind.BASE:
            return f"first {'byte' if of.operand(first).memory == DRAM else 'word'} of {first}"
        case FieldKind.STRIDE:
            return f"{'bytes' if of.operand(first).memory == DRAM else 'words'} that {first} moves with {second}"
        case FieldKind.IMMEDIATE:
            return "immediate"
        case FieldKind.FLAG:
            return f"add to the old value of {of.destination.name}"


def _sums(of: InstructionFormat) -> bool:
    return of.statement.reduction is not None and of.statement.reduction.op is Op.SUM


_FAULTS = {
    FaultCode.NONE: "none",
    FaultCode.OPCODE: "an opcode that the machine does not have; the opcode",
    FaultCode.WAIT: "a wait for an instruction that is not earlier in the program; the wait count",
    FaultCode.REGION: "a DMA burst outside its region; the first byte outside",
    FaultCode.ADDRESS: "an access outside a memory, or a block across two banks; its first word",
    FaultCode.BUS: "the bus answered with an error; 0",
}


def _faults() -> list[str]:
    return [
        "## Faults",
        "",
        "A machine that meets a fault stops, and reports its code, the instruction's index and an address.",
        "",
        *_table(["code", "name", "cause; address"], [(code.value, code.name, _FAULTS[code]) for code in FaultCode]),
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the manual of the machine that is named on the command line."""
    if len(arguments) != 1:
        machines = ", ".join(shipped_machines())
        print(f"usage: python -m tilewright.isa.pages.manual MACHINE ({machines} or a file)", file=sys.stderr)
        return 2
    try:
        print(manual(load_machine(arguments[0])), end="")
    except IsaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
