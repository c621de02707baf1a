"""What DMA engines cost: their energy is not measured."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codesign.templates.facet import Facet, LayerWork
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import iterations_of
from tilewright.isa.timing import DMA_STAGES


class DmaFacet(Facet):
    """A unit for each engine."""

    def units(self, machine: Machine, engine: Engine) -> Mapping[str, str]:
        return {engine.name: engine.name}

    def cycles_in_flight(self, machine: Machine, engine: Engine, work: LayerWork) -> int:
        """A register serves what is on the bus or what is on chip: it is written with each beat, or with each word."""
        beats = -(-work.moved_bytes // machine.dram.bus_bytes)
        words = sum(iterations_of(each) for each in work.instructions)
        return work.at_most(max(beats, words) + DMA_STAGES * len(work.instructions))
