"""DMA engines on pages: in the colour of the cycles that wait for their transfers."""

from __future__ import annotations

from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Machine
from tilewright.losses.colours import COLOURS
from tilewright.simulator.losses import Loss
from tilewright.templates.facet import Facet


class DmaFacet(Facet):
    """A colour for each direction."""

    def colour(self, engine: Engine) -> str:
        return COLOURS[Loss.LOAD if engine.dma.direction is Direction.IN else Loss.STORE]

    def about(self, engine: Engine, machine: Machine) -> str:
        return "reads DRAM" if engine.dma.direction is Direction.IN else "writes DRAM"
