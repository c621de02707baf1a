"""Who reads and who writes each memory: the table of docs/microarchitecture.md, for one machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from amaranth.lib.wiring import Out

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Interleave, Memory
from tilewright.rtl.interfaces import ReadSignature, WriteSignature
from tilewright.rtl.templates.facet import MemoryPort
from tilewright.rtl.templates.table import facet_of


def read_ports(machine: Machine) -> tuple[MemoryPort, ...]:
    """All ports that read, those of one memory in the order of the table; the sums and weights of arrays always win."""
    return _privileged_first(
        port for engine in _in_order(machine) for port in facet_of(engine.template).reads(machine, engine)
    )


def write_ports(machine: Machine) -> tuple[MemoryPort, ...]:
    """All ports that write, those of one memory in the order of the table, which is that of their right to write."""
    return _privileged_first(
        port for engine in _in_order(machine) for port in facet_of(engine.template).writes(machine, engine)
    )


def _privileged_first(ports: Iterable[MemoryPort]) -> tuple[MemoryPort, ...]:
    return tuple(sorted(ports, key=lambda port: not port.requester.is_privileged))


def _in_order(machine: Machine) -> list[Engine]:
    return sorted(machine.engines.values(), key=lambda engine: facet_of(engine.template).rank)


def built_memory(machine: Machine, memory: Memory) -> Memory:
    """A memory as it is built: with one bank where one reads and one writes, if one bank serves both at once."""
    if memory.has_one_port:
        return memory
    users = [sum(port.memory == memory.name for port in ports) for ports in (read_ports(machine), write_ports(machine))]
    return dataclasses.replace(memory, banks=1, interleave=Interleave.NONE) if max(users) <= 1 else memory


def ways_of(machine: Machine, memory: Memory) -> int:
    """Ways that a bank is interleaved over: the next power of two of the widest block that a port moves at once."""
    ports = (*read_ports(machine), *write_ports(machine))
    blocks = [port.requester.block for port in ports if port.memory == memory.name]
    return 1 << (max(blocks, default=1) - 1).bit_length()


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
        port.member: Out(WriteSignature(machine.memories[port.memory], port.requester.block, port.requester.has_mask))
        for port in write_ports(machine)
        if port.engine is engine
    }
