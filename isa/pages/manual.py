"""The manual of a machine, in Markdown: memories, engines, and one section per instruction. All of it is derived.

`tilewright isa manual base16` prints it; docs/isa-base16.md is that text.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.isa.assembly.line import quoted
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.encoding import WORD_BYTES
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS, Element
from tilewright.isa.pages.manual_instruction import instruction_section
from tilewright.isa.pages.markdown import markdown_table
from tilewright.isa.pages.show import banks_text, kib_text, lengths_text, port_users
from tilewright.isa.program.faults import FAULT_CAUSES
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES


def manual(machine: Machine, costs: Mapping[str, str] | None = None) -> str:
    """The whole manual; the same machine gives the same text. `costs` are sentences by mnemonic, if they are known."""
    parts = [
        *_introduction(machine),
        *_memories(machine),
        *_engines(machine),
        *_encoding(machine),
        "## Instructions",
        "",
        *_on_costs(machine, costs),
        *(line for format in machine.formats.values() for line in instruction_section(format, machine, costs)),
        *_faults(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _on_costs(machine: Machine, costs: Mapping[str, str] | None) -> list[str]:
    command = f"`tilewright isa manual {quoted(machine.name)} --price`"
    if costs is None:
        return [f"What each one costs in logic and energy is in the manual that {command} prints.", ""]
    return [
        "The cost of an instruction is the logic that the machine would save without it, by the count of operators; "
        "what several share is in none of them. Its energy leaves out the clock. See docs/price.md.",
        "",
    ]


_ROUNDINGS = {
    Rounding.EVEN: "to the even neighbour",
    Rounding.UP: "towards +∞",
    Rounding.AWAY: "away from zero",
}


def _introduction(machine: Machine) -> list[str]:
    arrays = [
        f"In each cycle, {'the array' if len(machine.of(Template.SYSTOLIC)) == 1 else engine.name} takes a vector of "
        f"{engine.array.rows} elements and gives {engine.array.cols} sums. "
        for engine in machine.of(Template.SYSTOLIC)
    ]
    vectors = machine.of(Template.VECTOR)
    each = "The vector engine has" if len(vectors) == 1 else f"There are {len(vectors)} vector engines; each has"
    lanes = list(dict.fromkeys(engine.vector.lanes for engine in vectors)) or [machine.lanes]
    if len(lanes) > 1:
        each = "Of the vector engines, " + " and ".join(f"{e} has {e.vector.lanes}" for e in vectors)
    counted = "lanes" if len(lanes) > 1 else f"{lanes[0]} lanes"
    return [
        f"# {machine.name}: instruction set",
        "",
        f"{machine.about}." if machine.about else "",
        "",
        f"Generated from the machine's YAML by `tilewright isa manual {quoted(machine.name)}`; do not edit.",
        "",
        f"{''.join(arrays)}{each} {counted}. An instruction has {lengths_text(machine)} bytes. The "
        f"machine's identity is the SHA-256 of its canonical YAML: `{machine.hash}`.",
        "",
    ]


def _memories(machine: Machine) -> list[str]:
    rows = [
        (
            f"`{memory.name}`",
            f"{memory.width} × {_element_text(memory.element)}",
            memory.word_bytes,
            memory.depth,
            ", ".join(filter(None, (f"{memory.banks} of {memory.bank_depth}", banks_text(memory)))),
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
        "Word w is in bank w div (words of a bank). A bank serves one read and one write in each cycle. After reset, "
        "all words are zero.",
        *_unusual_banks(machine),
        "",
        f"An address in DRAM is a region and an offset of {dram.offset_bits} bits, which counts bytes. The regions are "
        f"{regions}. The host sets a base and a limit for each. {_bus(machine)} moves {dram.bus_bytes} bytes in each "
        f"beat. A burst has up to {BURST_BEATS} beats and does not cross a {BURST_BOUNDARY_BYTES}-byte boundary. The "
        f"memory answers {dram.latency_cycles} cycles after a request.",
        "",
    ]


def _unusual_banks(machine: Machine) -> list[str]:
    said = {
        "one port": any(memory.has_one_port for memory in machine.memories.values()),
        "by words": any(memory.is_interleaved for memory in machine.memories.values()),
    }
    meanings = {
        "one port": "A bank of *one port* serves one access in each cycle, a read or a write.",
        "by words": "Of a memory *by words*, word w is in bank w mod (number of banks).",
    }
    return ["", " ".join(meanings[name] for name, is_so in said.items() if is_so)] if any(said.values()) else []


def _bus(machine: Machine) -> str:
    """Who moves the bytes: the subject of a sentence."""
    if machine.dram.ports == 1:
        return "The bus"
    ports = "; ".join(f"{port} for {', '.join(who)}" for port, who in enumerate(port_users(machine)))
    return f"The bus has {machine.dram.ports} ports: {ports}. Each"


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
        "Each engine runs its instructions in program order and counts those that are complete. All writes of a "
        "complete instruction are visible. An instruction has a wait count for each engine. It starts when every "
        "engine has completed that many instructions; 0 means that it does not wait. Engines work at the same time, "
        "and instructions of one engine overlap too. So a read of what an earlier instruction of the same engine wrote "
        "needs a wait as well, except for the sums that the array adds to. A wait may only count instructions that are "
        "earlier in the program. A program has at most "
        f"{machine.max_instructions_per_engine} instructions for an engine.",
        "",
    ]


def _encoding(machine: Machine) -> list[str]:
    return [
        "## Meaning and encoding",
        "",
        "An instruction is a loop nest around one statement. It goes through every index of the loops, the last loop "
        "fastest. Each time it reads each source at base + Σ index · stride, evaluates the statement in every lane, "
        "and writes the destination at its own base + Σ index · stride. Addresses count words on chip and bytes in "
        "DRAM. A loop that an operand does not list does not move that operand. If an instruction both reads and "
        "writes a word, it must read the word in the iteration that writes it, or earlier.",
        "",
        "Integers have no fixed width inside a statement, so nothing overflows. ⌊x⌉ is the nearest integer, ties "
        f"{_ROUNDINGS[machine.rounding]}. ⌊x⌋ rounds towards -∞. clamp(x, l, h) is min(max(x, l), h). wrap_T(x) is x "
        "modulo 2^bits, in the range of the type T. [a < b] is 1 if a < b, otherwise 0.",
        "",
        f"An instruction is a little-endian integer, in as many words of {WORD_BYTES} bytes as its fields need. The "
        "opcode, which tells how many, is in the first. Bits beyond its last field are 0. Trip counts are stored minus "
        "one.",
        "",
        "A line of assembly gives the fields that do not have their default (1 for trip counts, 0 for all others): "
        "`mnemonic loops(loop=trips) operand=memory[base; loop=stride] immediate=value wait(engine=count)`.",
        "",
    ]


def _faults() -> list[str]:
    rows = [(code.value, code.name, cause) for code, cause in FAULT_CAUSES.items()]
    return [
        "## Faults",
        "",
        "At a fault, the machine stops. It reports the fault's code, the index of the instruction and an address.",
        "",
        *markdown_table(["code", "name", "cause; address"], rows),
    ]
