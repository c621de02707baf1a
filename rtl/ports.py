"""Who reads and who writes each memory: the table of docs/microarchitecture.md, for one machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.lib.wiring import Out

from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.rtl.interfaces import ReadSignature, WriteSignature
from tilewright.rtl.memory import Requester
from tilewright.rtl.runs import chip_operand


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A member of an engine's component that reads or writes words of one memory."""

    engine: Engine
    member: str
    memory: str
    requester: Requester


def read_ports(machine: Machine) -> tuple[MemoryPort, ...]:
    """All ports that read, those of one memory in the order of the table; the array's sums and weights always win."""
    return (*_array_reads(machine), *_vector_reads(machine), *_store_reads(machine))


def write_ports(machine: Machine) -> tuple[MemoryPort, ...]:
    """All ports that write, those of one memory in the order of the table: the array's sums win, then vec's results."""
    return (*_array_writes(machine), *_vector_writes(machine), *_load_writes(machine))


def built_memory(machine: Machine, memory: Memory) -> Memory:
    """A memory as it is built: with one bank where one reads and one writes, since one bank serves both at once."""
    users = [sum(port.memory == memory.name for port in ports) for ports in (read_ports(machine), write_ports(machine))]
    return dataclasses.replace(memory, banks=1) if max(users) <= 1 else memory


def read_members(machine: Machine, engine: Engine) -> dict[str, Out]:
    """The members of an engine's component that read memories."""
    return {
        port.member: Out(ReadSignature(machine.memories[port.memory], port.requester.block))
        for port in read_ports(machine)
        if port.engine is engine
    }


def write_members(machine: Machine, engine: Engine) -> dict[str, Out]:
    """The members of an engine's component that write memories."""
    return {
        port.member: Out(WriteSignature(machine.memories[port.memory], port.requester.block))
        for port in write_ports(machine)
        if port.engine is engine
    }


def vector_source_memories(machine: Machine, slot: int) -> tuple[str, ...]:
    """The memories that some vector instruction reads as its source number `slot`, in the machine's order."""
    streams = [format.streams for format in machine.formats_of(Template.VECTOR)]
    found = {operands[slot].memory for operands in streams if slot < len(operands)}
    return tuple(name for name in machine.memories if name in found)


def widest_block(machine: Machine, slot: int, memory: str) -> int:
    """The most words that some vector instruction reads of a memory at once, as its source number `slot`."""
    streams = [format.streams for format in machine.formats_of(Template.VECTOR)]
    return max(s[slot].block for s in streams if slot < len(s) and s[slot].memory == memory)


def _array_reads(machine: Machine) -> Iterator[MemoryPort]:
    for format in machine.formats_of(Template.SYSTOLIC)[
        :1
    ]:  # the array reaches the same memories with all of its instructions
        a, w, c = systolic_activations(format), systolic_weights(format), format.destination
        array = format.engine
        yield MemoryPort(array, "c_read", c.memory, Requester(f"{array}_c", c.block, is_privileged=True))
        yield MemoryPort(array, "w", w.memory, Requester(f"{array}_w", is_privileged=True))  # row by row
        yield MemoryPort(array, "a", a.memory, Requester(f"{array}_a", a.block))


def _array_writes(machine: Machine) -> Iterator[MemoryPort]:
    for format in machine.formats_of(Template.SYSTOLIC)[:1]:
        array, c = format.engine, format.destination
        yield MemoryPort(array, "c_write", c.memory, Requester(f"{array}_c", c.block, is_privileged=True))


def _vector_reads(machine: Machine) -> Iterator[MemoryPort]:
    (vector,) = machine.of(Template.VECTOR)
    for slot in range(machine.vector_sources):
        for memory in vector_source_memories(machine, slot):
            block = widest_block(machine, slot, memory)
            yield MemoryPort(vector, f"source{slot}_{memory}", memory, Requester(f"{vector}_source{slot}", block))


def _vector_writes(machine: Machine) -> Iterator[MemoryPort]:
    (vector,) = machine.of(Template.VECTOR)
    written = {format.destination.memory for format in machine.formats_of(Template.VECTOR)}
    for memory in machine.memories:
        if memory in written:
            yield MemoryPort(vector, f"write_{memory}", memory, Requester(vector.name, is_privileged=True))


def _load_writes(machine: Machine) -> Iterator[MemoryPort]:
    loading = machine.dma(Direction.IN)
    for memory in dict.fromkeys(format.destination.memory for format in machine.formats_of(loading)):
        yield MemoryPort(loading, f"write_{memory}", memory, Requester(loading.name))


def _store_reads(machine: Machine) -> Iterator[MemoryPort]:
    storing = machine.dma(Direction.OUT)
    for memory in dict.fromkeys(chip_operand(format).memory for format in machine.formats_of(storing)):
        yield MemoryPort(storing, f"read_{memory}", memory, Requester(storing.name))
