"""On-chip memories as SRAM macros: how many of which, rounded up to those that exist."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.access_energy import storage_energy
from tilewright.codesign.price.process import Macro, Process
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import MOST_MEMORY_PORTS, Memory
from tilewright.rtl.ports import built_memory, ways_of


@dataclass(frozen=True, slots=True)
class MemoryPrice:
    """A memory as `storages` of `words` × `bits`, each of `across` × `deep` macros; only one of `deep` is accessed.

    An access to a storage takes `read_pj` or `write_pj`: what one-port macros of the same words and bits take, and less
    than real ones with two ports will. Where the library has no such macro they are estimated, with `energy_error` as
    the share that they may be off; None where they cannot be.
    """

    name: str
    storages: int
    words: int
    bits: int
    macro: Macro
    across: int
    deep: int
    read_pj: float | None
    write_pj: float | None
    energy_error: float = 0.0

    @property
    def is_energy_estimated(self) -> bool:
        return self.energy_error > 0

    @property
    def macros(self) -> int:
        return self.storages * self.across * self.deep

    @property
    def area_um2(self) -> float:
        return self.macros * self.macro.area_um2

    @property
    def used_bits(self) -> int:
        return self.storages * self.words * self.bits

    @property
    def wasted_bits(self) -> int:
        return self.macros * self.macro.words * self.macro.bits - self.used_bits


def memory_price(machine: Machine, memory: Memory, process: Process, most_ns: float = math.inf) -> MemoryPrice:
    """The memory in the macros that take the least area, of equal ones the fewest; none of them later than `most_ns`.

    Raises PriceError without any.
    """
    price = storage_price(memory.name, _storages(machine, memory), process, memory.ports, most_ns)
    if price is None:
        what = f"{memory.ports} port{'s' * (memory.ports > 1)}"
        late = f" and a word within {most_ns:.2f} ns" if most_ns < math.inf else ""
        raise PriceError(f"{process.name} has no macro with {what}{late}, which {memory.name} needs")
    return price


def storage_price(
    name: str,
    sizes: tuple[int, int, int],
    process: Process,
    ports: int = MOST_MEMORY_PORTS,
    most_ns: float = math.inf,
) -> MemoryPrice | None:
    """So many storages of words of bits in the macros that take the least area; None where none is as wanted.

    Wanted are so many ports, and that a word comes `most_ns` after the clock at the latest.
    """
    storages, words, bits = sizes
    fitting = [macro for macro in process.macros if macro.ports == ports and _delay(macro) <= most_ns]
    if not fitting:
        return None
    macro = min(fitting, key=lambda each: (_count(each, words, bits) * each.area_um2, _count(each, words, bits)))
    across, deep = -(-bits // macro.bits), -(-words // macro.words)
    energy = storage_energy(process.macros, words, bits, ports)
    energies = (None, None, 0.0) if energy is None else (energy.read_pj, energy.write_pj, energy.error)
    return MemoryPrice(name, storages, words, bits, macro, across, deep, *energies)


def _storages(machine: Machine, memory: Memory) -> tuple[int, int, int]:
    """How many storages of how many words of how many bits the hardware has: see rtl/memory.py, rtl/table_memory.py."""
    if memory.name in machine.table_memories:
        lanes = machine.looking_up(memory.name).vector.lanes
        return lanes, memory.depth, memory.element.bits * (memory.width // lanes)
    ways, built = ways_of(machine, memory), built_memory(machine, memory)
    return built.banks * ways, -(-built.bank_depth // ways), 8 * memory.word_bytes


def _delay(macro: Macro) -> float:
    """What the process does not say is no reason to leave a macro out."""
    return macro.clock_to_output_ns or 0.0


def _count(macro: Macro, words: int, bits: int) -> int:
    return -(-bits // macro.bits) * -(-words // macro.words)
