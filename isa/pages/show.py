"""A machine as tables of plain values, for 80 columns: what it has, what it can do, how fast it is at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.isa.machine.memory import Element, Memory
from tilewright.isa.timing import vec_stages

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; every row has a cell for each column. Numbers are numbers, so that they can be aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def tables(machine: Machine) -> tuple[Table, ...]:
    """The machine itself, then its memories, engines, instructions, their statements and peak rates."""
    return (
        _machine(machine),
        _memories(machine),
        _engines(machine),
        _instructions(machine),
        _statements(machine),
        peak_rates(machine),
    )


def list_machines(machines: Sequence[Machine]) -> Table:
    """One row for each machine."""
    rows = tuple(
        (
            m.name,
            " ".join(_size(engine) for engine in m.of(Template.SYSTOLIC)) or "none",
            m.lanes,
            ", ".join(f"{memory.name} {kib_text(memory)}" for memory in m.memories.values()),
            m.dram.bus_bytes if m.dram.ports == 1 else f"{m.dram.ports} × {m.dram.bus_bytes}",
        )
        for m in machines
    )
    return Table("Machines", ("machine", "array", "lanes", "memories in KiB", "bus bytes"), rows)


def _machine(machine: Machine) -> Table:
    dram, arrays = machine.dram, machine.of(Template.SYSTOLIC)
    rows = (
        ("name", machine.name),
        ("about", machine.about),
        *(
            (
                str(engine) if len(arrays) > 1 else "array",
                f"{_size(engine)}: vectors of {engine.array.rows} elements in, {engine.array.cols} sums out",
            )
            for engine in arrays
        ),
        ("lanes", f"{machine.lanes} elements a word of the vector engine"),
        ("rounding", f"ties: {machine.rounding.value}"),
        ("bus", f"{dram.bus_bytes} bytes a beat, {dram.latency_cycles} cycles latency"),
        *((f"port {port}", ", ".join(who)) for port, who in enumerate(port_users(machine)) if dram.ports > 1),
        ("memories", f"{sum(m.bytes for m in machine.memories.values()) / 1024:g} KiB in all"),
        ("instructions", f"{lengths_text(machine)} bytes, wait counts of {machine.wait_bits} bits"),
        ("hash", machine.hash[:16]),
    )
    return Table("Machine", ("property", "value"), rows)


def _memories(machine: Machine) -> Table:
    memories = machine.memories.values()
    rows = tuple((m.name, kib_text(m), m.depth, banks_cell(m), m.word_bytes, word_text(m)) for m in memories)
    return Table("Memories", ("memory", "KiB", "words", "banks", "bytes a word", "a word holds"), rows)


def banks_cell(memory: Memory) -> Cell:
    """The number of banks, and what is unusual of them: `4`, or `4, one port, by words`."""
    unusual = banks_text(memory)
    return f"{memory.banks}, {unusual}" if unusual else memory.banks


def banks_text(memory: Memory) -> str:
    """What a file says of a memory's banks beside their number, in words; empty of usual ones."""
    return ", ".join([*["one port"] * memory.has_one_port, *["by words"] * memory.is_interleaved])


def _engines(machine: Machine) -> Table:
    rows = tuple(
        (e.name, e.template, e.queue_depth, ", ".join(e.reads), ", ".join(e.writes)) for e in machine.engines.values()
    )
    return Table("Engines", ("engine", "template", "queue", "reads", "writes"), rows)


def _instructions(machine: Machine) -> Table:
    rows = tuple(
        (format.mnemonic, format.opcode, format.bits, format.bytes, loops_text(format))
        for format in machine.formats.values()
    )
    return Table("Instructions", ("instruction", "opcode", "bits", "bytes", "loops, bits"), rows)


def _statements(machine: Machine) -> Table:
    """A table of their own: beside the loops there is no room for them in 80 columns."""
    rows = tuple((format.mnemonic, format.statement.text) for format in machine.formats.values())
    return Table("Statements", ("instruction", "statement"), rows)


def peak_rates(machine: Machine) -> Table:
    """What the machine does at best. Below the ridge point, in MACs a byte of DRAM traffic, the bus bounds a layer."""
    macs, dram = machine.products_a_cycle, machine.dram
    reads, writes = machine.read_bytes, dram.bus_bytes * len(machine.ports(Direction.OUT))
    arrays, vectors = machine.of(Template.SYSTOLIC), machine.of(Template.VECTOR)
    array = "arrays" if len(arrays) > 1 else "array"
    vector = "vector engines" if len(vectors) > 1 else "vector engine"
    rows: tuple[tuple[Cell, ...], ...] = (
        (array, macs, "MACs a cycle"),
        (vector, _whole(sum(1 / engine.vector.parts for engine in vectors)), "words a cycle"),
        (vector, sum(engine.vector.lanes for engine in vectors), "elements a cycle"),
        *((str(e) if len(vectors) > 1 else vector, vec_stages(machine, e), "stages") for e in vectors),
        *(
            [("DRAM, each way", reads, "bytes a cycle")]
            if dram.ports == 1
            else [("DRAM, reading", reads, "bytes a cycle"), ("DRAM, writing", writes, "bytes a cycle")]
        ),
        ("ridge point", macs / reads, "MACs a byte"),
        *(
            ("weight tile, on chip", rows, "cycles, hidden behind as many vectors")
            for rows in dict.fromkeys(engine.array.rows for engine in arrays)
        ),
    )
    return Table("Peak rates", ("what", "rate", "unit"), rows)


def _whole(number: float) -> Cell:
    return int(number) if number == int(number) else number


def _size(engine: Engine) -> str:
    return f"{engine.array.rows}×{engine.array.cols}"


# -- values as text ----------------------------------------------------------------------------------------------------


def kib_text(memory: Memory) -> str:
    return f"{memory.bytes / 1024:g}"


def word_text(memory: Memory) -> str:
    """`16 × int32`"""
    return f"{memory.width} × {element_text(memory.element)}"


def element_text(element: Element) -> str:
    """`int32`, or `{bias: int32, shift: uint6}`"""
    if element.type is not None:
        return str(element.type)
    return "{" + ", ".join(f"{field.name}: {field.type}" for field in element.fields) + "}"


def lengths_text(machine: Machine) -> str:
    """The fewest and the most bytes of an instruction: `24 to 48`."""
    lengths = {format.bytes for format in machine.formats.values()}
    return " to ".join(map(str, dict.fromkeys((min(lengths), max(lengths)))))


def port_users(machine: Machine) -> list[list[str]]:
    """Who is on each AXI port: fetch, and DMA engines in file order."""
    users: list[list[str]] = [["fetch"] if port == FETCH_PORT else [] for port in range(machine.dram.ports)]
    for engine in machine.of(Template.DMA):
        users[engine.dma.port].append(engine.name)
    return users


def loops_text(format: InstructionFormat) -> str:
    """Loops with the bits of their trip counts, outermost first: `n6 k8 x10`."""
    return " ".join(f"{loop.name}{loop.bits}" for loop in format.loops)
