"""How many bits go into a vector engine's datapath, and come out of it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector import vector_walk
from tilewright.rtl.layout import immediate_places, immediates_layout


def source_bits(machine: Machine, engine: Engine) -> list[int]:
    """Width of each source slot: that of the widest word, or block of words, that a format reads, or of a part."""
    streams = [vector_walk(format).streams for format in machine.formats_of(engine)]
    return [
        max(word_bits(machine, engine, s[i].memory) * s[i].block for s in streams if i < len(s))
        for i in range(machine.vector_sources(engine))
    ]


def word_bits(machine: Machine, engine: Engine, memory: str) -> int:
    """Bits of what an engine takes of a memory's word in a cycle: the word, or its part for the engine's lanes."""
    taken = machine.memories[memory]
    return 8 * taken.word_bytes if engine.vector.parts == 1 else engine.vector.lanes * taken.element.bits


def looked_up(machine: Machine, engine: Engine) -> tuple[str, ...]:
    """The memories of tables in which an engine looks up, in the machine's order."""
    tables = {table.memory for format in machine.formats_of(engine) for table in format.tables}
    return tuple(name for name in machine.memories if name in tables)


def table_address_bits(machine: Machine, engine: Engine) -> dict[int, int]:
    """Width of a word address of each source slot in which some format has a table."""
    bits: dict[int, int] = {}
    for format in machine.formats_of(engine):
        for table in format.tables:
            slot = format.sources.index(table)
            bits[slot] = max(bits.get(slot, 0), machine.memories[table.memory].address_bits)
    return bits


def result_element_bits(machine: Machine, engine: Engine) -> int:
    """Width of a lane of the result: that of the widest element that a format writes."""
    return max((format.destination.element.bits for format in machine.formats_of(engine)), default=1)


def result_bits(machine: Machine, engine: Engine) -> int:
    return engine.vector.lanes * result_element_bits(machine, engine)


def immediates_bits(formats: Sequence[InstructionFormat]) -> int:
    places = immediate_places(formats)
    return max([1, *(immediates_layout(format, places).size for format in formats)])
