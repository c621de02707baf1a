"""What an instruction is read against: the rest of its machine file, and what it declares for its statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.isa.language.numeric import IntegerType, Rounding
from tilewright.isa.machine.encoding import Loop, Operand
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.memory import DRAM, Dram, Memory


@dataclass(frozen=True, slots=True)
class MachineSizes:
    """What instructions need to know of the rest of the file."""

    lanes: int
    is_array_known: bool  # False: the sizes are stand-ins, and nothing that follows from them is a fault
    rounding: Rounding
    wait_bits: int
    dram: Dram
    memories: Mapping[str, Memory]
    faulty_memories: tuple[str, ...]  # complained of already: instructions that use them are left alone
    engines: Mapping[str, Engine]

    def address_bits(self, memory: str) -> int:
        """Bits of a base address: of words on chip, of bytes into a region for DRAM."""
        return self.dram.offset_bits if memory == DRAM else self.memories[memory].address_bits


@dataclass(frozen=True, slots=True)
class Declarations:
    """Everything that an instruction declares and its statement may use."""

    loops: tuple[Loop, ...]  # outermost first
    sources: tuple[Operand, ...]
    destination: Operand
    immediates: Mapping[str, IntegerType]
    has_accumulate: bool

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Sources in file order, then the destination."""
        return (*self.sources, self.destination)
