"""The hardware of vector engines."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector import vector_walk
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.memory import Requester
from tilewright.rtl.templates.facet import Facet, MemoryPort


class VectorFacet(Facet):
    """A read port for each source and memory, and a write port for each memory; results win but against the array's."""

    rank = 1
    stalls = {"port": Activity.STALL_PORT}

    def reads(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        for slot in range(machine.vector_sources(engine)):
            for memory in vector_source_memories(machine, engine, slot):
                requester = Requester(f"{engine}_source{slot}", _widest_block(machine, engine, slot, memory))
                yield MemoryPort(engine, f"source{slot}_{memory}", memory, requester)

    def writes(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        written = {format.destination.memory for format in machine.formats_of(engine)}
        for memory in machine.memories:
            if memory in written:
                yield MemoryPort(engine, f"write_{memory}", memory, Requester(engine.name, is_privileged=True))


def vector_source_memories(machine: Machine, engine: Engine, slot: int) -> tuple[str, ...]:
    """The memories that some instruction of an engine reads as its source number `slot`, in the machine's order."""
    streams = [format.streams for format in machine.formats_of(engine)]
    found = {operands[slot].memory for operands in streams if slot < len(operands)}
    return tuple(name for name in machine.memories if name in found)


def _widest_block(machine: Machine, engine: Engine, slot: int, memory: str) -> int:
    """The most words that some instruction of an engine reads of a memory at once, as its source number `slot`."""
    streams = [vector_walk(format).streams for format in machine.formats_of(engine)]
    return max(s[slot].block for s in streams if slot < len(s) and s[slot].memory == memory)
