"""The energy of a program's memory accesses, by layer. What logic takes is not measured, and so not stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codesign.price.accesses import Accesses, accesses
from tilewright.codesign.price.macros import MemoryPrice
from tilewright.codesign.price.price import Price
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.rtl.memory import ways_of
from tilewright.simulator.profile import instructions_of_layers, layers_of


@dataclass(frozen=True, slots=True)
class LayerEnergy:
    """A layer's energy in pJ: by on-chip memory, and of DRAM; None for a memory whose accesses are not measured."""

    name: str
    macs: int
    memories_pj: Mapping[str, float | None]
    dram_pj: float

    @property
    def measured_pj(self) -> float:
        """Of the memories whose figures are known."""
        return sum(energy for energy in self.memories_pj.values() if energy is not None)


def energy_of_layers(
    price: Price, program: Program, profile: Mapping[str, Any], dram_pj_per_byte: float
) -> list[LayerEnergy]:
    """Energy by layer; `profile` is the program's, which has the layers' DRAM bytes, those of fetch included."""
    layers = layers_of(program)
    found = []
    for layer, indices, costs in zip(layers, instructions_of_layers(program, layers), profile["layers"], strict=True):
        counts = accesses(price.machine, (program.instructions[index] for index in indices))
        dram = dram_pj_per_byte * sum(costs["dram_bytes"].values())
        found.append(LayerEnergy(layer.name, layer.macs, _memories(price.machine, price.memories, counts), dram))
    return found


def _memories(machine: Machine, memories: Sequence[MemoryPrice], counts: Accesses) -> dict[str, float | None]:
    return {memory.name: _memory_pj(machine, memory, counts) for memory in memories}


def _memory_pj(machine: Machine, memory: MemoryPrice, counts: Accesses) -> float | None:
    """A read takes every way of a bank, a write takes one; in a memory of tables each lane has its own storage."""
    reads, writes, lookups = (of[memory.name] for of in (counts.reads, counts.writes, counts.lookups))
    if memory.read_pj is None or memory.write_pj is None:
        return None if reads + writes + lookups else 0.0
    if memory.name in machine.table_memories:
        return lookups * memory.read_pj + writes * memory.storages * memory.write_pj
    ways = ways_of(machine, machine.memories[memory.name])
    return reads * ways * memory.read_pj + writes * memory.write_pj
