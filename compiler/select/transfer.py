"""What moves words between DRAM and the on-chip memories, found by form: a statement that is its one operand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM


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

    def home(self, of: IntegerType) -> str:
        """The memory where tensors of a type live: plain words of `lanes` elements that DRAM both fills and takes."""
        for memory in self.machine.memories.values():
            is_plain = memory.element.type == of and memory.width == self.machine.lanes
            if is_plain and memory.name in self.loads and memory.name in self.stores:
                return memory.name
        raise CompileError(
            self.machine.name,
            f"no memory can hold tensors of {of}",
            expected=f"one with words of {self.machine.lanes} {of} and instructions `y = d` from dram and `d = y` to "
            "dram for it",
        )


def find_transfers(machine: Machine) -> Transfers:
    """Every plain move between DRAM and a memory; the first of the file where several do the same."""
    loads: dict[str, InstructionFormat] = {}
    stores: dict[str, InstructionFormat] = {}
    for of in machine.formats.values():
        if of.statement.expr.op is not Op.SOURCE or of.statement.expr.field or len(of.sources) != 1:
            continue
        source, destination = of.sources[0].memory, of.destination.memory
        if source == DRAM and destination != DRAM:
            loads.setdefault(destination, of)
        elif destination == DRAM and source != DRAM:
            stores.setdefault(source, of)
    return Transfers(machine, loads, stores)


def _missing(machine: Machine, statement: str, source: str, destination: str) -> CompileError:
    fact = f"no instruction of {machine.name} computes `{statement}` from {source} to {destination}"
    return CompileError(fact=fact, remedy="add one")
