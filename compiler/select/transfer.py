"""The instructions that move words between DRAM and on-chip memories: those whose statement is their one operand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import NestProgram
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, storage_bits


@dataclass(frozen=True)
class Transfers:
    """The machine's moves to and from DRAM, by on-chip memory."""

    machine: Machine
    loads: Mapping[str, InstructionFormat]
    stores: Mapping[str, InstructionFormat]

    def load(self, memory: str) -> InstructionFormat:
        """The instruction that fills a memory from DRAM; raises CompileError when there is none."""
        if memory not in self.loads:
            raise _missing(self.machine, "y = d", DRAM, memory)
        return self.loads[memory]

    def store(self, memory: str) -> InstructionFormat:
        """The instruction that saves words of a memory to DRAM; raises CompileError when there is none."""
        if memory not in self.stores:
            raise _missing(self.machine, "d = y", memory, DRAM)
        return self.stores[memory]

    def home(self, element: IntegerType) -> str:
        """The memory where tensors of an element type live: words of `lanes` plain elements, with loads and stores.

        One of a narrower type will do if its elements take as many bits: they are kept as they are where they are
        moved, and sign-extended where they are written.
        """
        found = [
            memory
            for memory in self.machine.memories.values()
            if memory.width == self.machine.lanes and memory.name in self.loads and memory.name in self.stores
        ]
        for memory in found:
            if memory.element.type == element:
                return memory.name
        for memory in found:
            held = memory.element.type
            is_alike = held is not None and held.is_signed == element.is_signed and held.bits < element.bits
            if is_alike and memory.element.bits == storage_bits(element.bits):
                return memory.name
        raise CompileError(
            self.machine.name,
            f"no memory can hold tensors of {element}",
            expected=f"one with words of {self.machine.lanes} {element} and instructions `y = d` from dram "
            "and `d = y` to dram for it",
        )

    def home_of_constants(self, element: IntegerType) -> str:
        """The memory of an element type that is only loaded; empty if there is none, or tensors have a home."""
        found = [
            memory.name
            for memory in self.machine.memories.values()
            if memory.width == self.machine.lanes and memory.name in self.loads and memory.element.type == element
        ]
        return "" if any(name in self.stores for name in found) else next(iter(found), "")


def find_transfers(machine: Machine) -> Transfers:
    """Every plain move between DRAM and a memory; the first of the file where several do the same."""
    loads: dict[str, InstructionFormat] = {}
    stores: dict[str, InstructionFormat] = {}
    for format in machine.formats.values():
        moved = format.statement.expr
        if moved.op is not Op.SOURCE or moved.field or len(format.sources) != 1:
            continue
        source, destination = format.sources[0].memory, format.destination.memory
        if source == DRAM and destination != DRAM:
            loads.setdefault(destination, format)
        elif destination == DRAM and source != DRAM:
            stores.setdefault(source, format)
    return Transfers(machine, loads, stores)


def home_of(transfers: Transfers, program: NestProgram, tensor: str) -> str:
    """The memory where a buffer or constant of a program lives on chip. A constant need not leave it."""
    buffer = program.buffers.get(tensor)
    if buffer is not None:
        return transfers.home(buffer.type)
    element = program.constant_types[tensor]
    return transfers.home_of_constants(element) or transfers.home(element)


def _missing(machine: Machine, statement: str, source: str, destination: str) -> CompileError:
    fact = f"no instruction of {machine.name} computes `{statement}` from {source} to {destination}"
    return CompileError(fact=fact, remedy="add one")
