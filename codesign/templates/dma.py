"""What DMA engines cost: their energy is not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from tilewright.codesign.templates.facet import Accesses, Facet
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM


class DmaFacet(Facet):
    """A unit for each engine."""

    def units(self, engine: Engine) -> Mapping[str, str]:
        return {engine.name: engine.name}

    def accesses(self, machine: Machine, instruction: Instruction) -> Accesses:
        """A word an iteration, into an on-chip memory or out of it."""
        words = prod(instruction.trips.values())
        reads = Counter({of.memory: words for of in instruction.format.sources if of.memory != DRAM})
        target = instruction.format.destination.memory
        return Accesses(reads, Counter() if target == DRAM else Counter({target: words}), Counter())
