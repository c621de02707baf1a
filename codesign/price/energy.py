"""The energy of a program by layer: its memory accesses, DRAM, the clock, the array and the vector lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.price.accesses import AccessCounts, accesses
from tilewright.codesign.price.clocked import clocked
from tilewright.codesign.price.macros import MemoryPrice
from tilewright.codesign.price.price import Price
from tilewright.codesign.templates.facet import LogicEnergy
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import iterations_of
from tilewright.isa.program.program import Program
from tilewright.isa.timing import vec_beats
from tilewright.rtl.ports import ways_of
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.simulator.run_profile import RunProfile


@dataclass(frozen=True, slots=True)
class LayerEnergy:
    """A layer's energy in pJ: by on-chip memory, of DRAM, and of logic by what takes it.

    None for a memory of whose accesses nothing is known, and for logic in a process that has no figures for it.
    """

    name: str
    macs: int
    memories_pj: Mapping[str, float | None]
    dram_pj: float
    logic_pj: Mapping[str, float] | None

    @property
    def memory_pj(self) -> float | None:
        """Of all memories; None where one of them is not known, because a sum without it would be too small."""
        known = [energy for energy in self.memories_pj.values() if energy is not None]
        return sum(known) if len(known) == len(self.memories_pj) else None


def energy_of_layers(price: Price, program: Program, profile: RunProfile, dram_pj_per_byte: float) -> list[LayerEnergy]:
    """Energy by layer; `profile` is the program's, which has the layers' DRAM bytes, those of fetch included."""
    layers = layers_of(program)
    found = []
    for layer, indices, costs in zip(layers, instructions_of_layers(program, layers), profile.layers, strict=True):
        counts = accesses(price.machine, (program.instructions[index] for index in indices))
        dram = dram_pj_per_byte * costs.dram_bytes.moved
        memories = _memories(price.machine, price.memories, counts)
        own = [program.instructions[index] for index in indices]
        found.append(LayerEnergy(layer.name, layer.macs, memories, dram, logic_pj(price, own, costs.cycles)))
    return found


def logic_pj(price: Price, instructions: Sequence[Instruction], cycles: int) -> dict[str, float] | None:
    """Of the clock in flip-flops that it reaches; of what vectors and iterations switch in the array and the lanes.

    What switches in queues, walkers and arbiters is not measured, and not in the sum.
    """
    figures = price.process.logic_energy
    if figures is None:
        return None
    engines = price.machine.engines.values()
    of = dict.fromkeys(price.machine.engines, 0)
    for instruction in instructions:
        of[instruction.engine.name] += iterations_of(instruction) * vec_beats(instruction.format)
    areas = {unit.name: unit.area_um2 for unit in price.units}
    energies = [facet_of(each.template).energy(each, figures, of[each.name], areas) for each in engines]
    return {
        "clock": _clock_pj(price, figures, instructions, cycles),
        **dict(energy for energy in energies if energy is not None),
    }


def _clock_pj(price: Price, figures: LogicEnergy, instructions: Sequence[Instruction], cycles: int) -> float:
    """Of the flip-flops that the clock reaches, all where nothing is gated, and of the gates before them."""
    gate = price.process.clock_gate
    if not price.machine.has_gated_clocks or gate is None:
        return figures.clock_pj_per_flip_flop * sum(unit.flip_flops for unit in price.units) * cycles
    reached = clocked(price, instructions, cycles)
    closed = sum(unit.clock_gates for unit in price.units) * cycles - reached.gates
    return figures.clock_pj_per_flip_flop * reached.flip_flops + gate.open_pj * reached.gates + gate.closed_pj * closed


def _memories(machine: Machine, memories: Sequence[MemoryPrice], counts: AccessCounts) -> dict[str, float | None]:
    return {memory.name: memory_pj(machine, memory, counts) for memory in memories}


def memory_pj(machine: Machine, memory: MemoryPrice, counts: AccessCounts) -> float | None:
    """A read takes every way of a bank, a write takes one; in a memory of tables each lane has its own storage."""
    reads, writes, lookups = (of[memory.name] for of in (counts.reads, counts.writes, counts.lookups))
    if memory.read_pj is None or memory.write_pj is None:
        return None if reads + writes + lookups else 0.0
    if memory.name in machine.table_memories:
        return lookups * memory.read_pj + writes * memory.storages * memory.write_pj
    ways = ways_of(machine, machine.memories[memory.name])
    return reads * ways * memory.read_pj + writes * memory.write_pj
