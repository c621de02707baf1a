"""The manual of a machine, in Markdown: memories, engines, and one section per instruction. All of it is derived.

`tilewright isa manual base16` prints it; docs/isa-base16.md is that text.
"""

from __future__ import annotations

from tilewright.isa.assembly.line import quoted
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS, Element
from tilewright.isa.pages.manual_instruction import instruction_section
from tilewright.isa.pages.markdown import markdown_table
from tilewright.isa.pages.show import kib_text
from tilewright.isa.program.faults import FAULT_CAUSES
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES


def manual(machine: Machine) -> str:
    """The whole manual; the same machine gives the same text."""
    parts = [
        *_introduction(machine),
        *_memories(machine),
        *_engines(machine),
        *_encoding(machine),
        "## Instructions",
        "",
        *(line for format in machine.formats.values() for line in instruction_section(format, machine)),
        *_faults(),
    ]
    return "\n".join(parts).rstrip() + "\n"


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
        f"the canonical YAML): `{machine.hash}`.",
        "",
    ]


def _memories(machine: Machine) -> list[str]:
    rows = [
        (
            f"`{memory.name}`",
            f"{memory.width} × {_element_text(memory.element)}",
            memory.word_bytes,
            memory.depth,
            f"{memory.banks} of {memory.bank_depth}",
            f"{kib_text(memory)} KiB",
        )
        for memory in machine.memories.values()
    ]
    dram = machine.dram
    regions = ", ".join(f"{number} `{name}`" for number, name in enumerate(REGIONS))
    return [
        "## Memories",
        "",
        *markdown_table(["memory", "a word holds", "bytes a word", "words", "banks", "size"], rows),
        "Word w is in bank w div (words of a bank). A bank serves one read and one write a cycle. After reset all "
        "words are zero.",
        "",
        f"DRAM is byte-addressed: a region and an offset of {dram.offset_bits} bits. The regions are {regions}; each "
        f"has a base and a limit set by the host. The bus moves {dram.bus_bytes} bytes a beat, in bursts of up to "
        f"{BURST_BEATS} beats that do not cross a {BURST_BOUNDARY_BYTES}-byte boundary; the memory answers "
        f"{dram.latency_cycles} cycles after a request.",
        "",
    ]


def _element_text(element: Element) -> str:
    if element.type is not None:
        return str(element.type)
    fields = ", ".join(f"{field.name}: {field.type} at bit {field.low_bit}" for field in element.fields)
    return f"{{{fields}}} in {element.bits} bits"


def _engines(machine: Machine) -> list[str]:
    rows = [
        (f"`{engine.name}`", engine.template, ", ".join(engine.reads), ", ".join(engine.writes), engine.queue_depth)
        for engine in machine.engines.values()
    ]
    return [
        "## Engines",
        "",
        *markdown_table(["engine", "template", "reads", "writes", "queue"], rows),
        "Each engine runs its instructions in program order and counts those that are completed. An instruction "
        "starts when each engine's count has reached the instruction's wait for it; 0 waits for nothing. A completed "
        "instruction's writes are visible. Engines overlap, and so do instructions of one engine: a read of what an "
        "earlier instruction of the same engine wrote needs a wait too, except the sums that the array adds to. A "
        "wait may only name instructions that are earlier in the program, of which an engine has at most "
        f"{machine.max_instructions_per_engine}.",
        "",
    ]


def _encoding(machine: Machine) -> list[str]:
    return [
        "## Meaning and encoding",
        "",
        "An instruction is a loop nest around one statement. For every index of the loops, the last loop fastest, it "
        "reads each source at base + Σ index · stride, evaluates the statement in every lane, and writes the "
        "destination at its own base + Σ index · stride. Addresses count words on chip and bytes in DRAM. A loop that "
        "an operand does not list leaves that operand where it is. A word that an instruction both writes and reads "
        "must be read in the same or an earlier iteration than it is written.",
        "",
        "Integers are mathematical: nothing overflows inside a statement. ⌊x⌉ is the nearest integer, ties "
        f"{_ROUNDINGS[machine.rounding]}; ⌊x⌋ rounds towards -∞; clamp(x, l, h) = min(max(x, l), h); wrap_T(x) is x "
        "modulo 2^bits in the range of the type T; [a < b] is 1 if true, else 0.",
        "",
        f"An instruction is a little-endian integer of {8 * machine.instruction_bytes} bits; bits beyond its last "
        "field are 0. Trip counts are stored minus one.",
        "",
        "In assembly a line names the fields that are not at their default (trip counts 1, all else 0): "
        "`mnemonic loops(loop=trips) operand=memory[base; loop=stride] immediate=value wait(engine=count)`.",
        "",
    ]


def _faults() -> list[str]:
    rows = [(code.value, code.name, cause) for code, cause in FAULT_CAUSES.items()]
    return [
        "## Faults",
        "",
        "A machine that meets a fault stops, and reports its code, the instruction's index and an address.",
        "",
        *markdown_table(["code", "name", "cause; address"], rows),
    ]
