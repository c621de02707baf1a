"""What each instruction of a machine costs: the logic that is there for it alone, and the energy of an iteration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tilewright.codesign.price.accesses import accesses
from tilewright.codesign.price.energy import logic_pj, memory_pj
from tilewright.codesign.price.price import Price, price_machine
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.encoding import FieldKind, Instruction, InstructionFormat
from tilewright.isa.program.demands import moved_bytes


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """`area_um2` is what the machine saves without the instruction, fitted; None for the only one of its engine.

    Energies are of a single iteration, in pJ, which of an array reads a weight tile; the clock is not among them. None
    where they are not known: that of the logic of DMA is not measured.
    """

    mnemonic: str
    area_um2: float | None
    memories_pj: float | None
    dram_pj: float
    logic_pj: float | None
    is_estimated: bool = False  # the energy in memories, of one of them


def instruction_costs(price: Price) -> dict[str, InstructionCost]:
    """The cost of every instruction, by mnemonic: about half a second of CPU for each."""
    return {name: _cost(price, format) for name, format in price.machine.formats.items()}


def cost_text(cost: InstructionCost, price: Price) -> str:
    """The cost as a sentence of the manual."""
    logic = "all logic of its engine"
    if cost.area_um2 is not None:
        logic = f"{price.gates(cost.area_um2) / 1000:.1f} kGE of logic that is there for it alone (fitted)"
    estimated = " (estimated)" if cost.is_estimated else ""
    energies = [f"{_pj(cost.memories_pj)} in memories{estimated}", f"{_pj(cost.logic_pj)} in logic"]
    if cost.dram_pj:
        energies.append(f"{_pj(cost.dram_pj)} in DRAM")
    return f"{logic}. A single iteration takes {', '.join(energies)}."


def _pj(energy: float | None) -> str:
    return "an unknown energy" if energy is None else f"{energy:,.1f} pJ"


def _cost(price: Price, format: InstructionFormat) -> InstructionCost:
    machine = price.machine
    once = _one_iteration(format)
    counts = accesses(machine, [once])
    energies = [memory_pj(machine, memory, counts) for memory in price.memories]
    known = [energy for energy in energies if energy is not None]
    figures = price.process.logic_energy
    is_known = (
        figures is not None and facet_of(format.engine.template).energy(format.engine, figures, 1, {}) is not None
    )
    logic = logic_pj(price, [once], cycles=0) if is_known else None
    return InstructionCost(
        format.mnemonic,
        _area_for_it_alone(price, format),
        sum(known) if len(known) == len(energies) else None,
        price.process.dram_pj_per_byte * moved_bytes(once, machine),
        sum(logic.values()) if logic is not None else None,
        any(of.is_energy_estimated and pj for of, pj in zip(price.memories, energies, strict=True)),
    )


def _area_for_it_alone(price: Price, format: InstructionFormat) -> float | None:
    machine = price.machine
    if len(machine.formats_of(format.engine)) == 1:
        return None
    others = {name: other for name, other in machine.formats.items() if name != format.mnemonic}
    without = price_machine(dataclasses.replace(machine, formats=others), price.process, like=machine)
    return price.logic_um2 - without.logic_um2


def _one_iteration(format: InstructionFormat) -> Instruction:
    """All trip counts are 1, all else 0."""
    return Instruction(format, tuple(int(field.kind is FieldKind.TRIP) for field in format.fields))
