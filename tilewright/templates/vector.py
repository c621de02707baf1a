"""Vector engines on pages: in the colour of the cycles in which only they work."""

from __future__ import annotations

from tilewright.isa.machine.engine import Engine, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.losses.colours import COLOURS
from tilewright.simulator.losses import Loss
from tilewright.templates.facet import Facet


class VectorFacet(Facet):
    """By its lanes."""

    def colour(self, engine: Engine) -> str:
        return COLOURS[Loss.VECTOR]

    def about(self, engine: Engine, machine: Machine) -> str:
        assert isinstance(engine.settings, Vector)
        return f"{engine.settings.lanes} lanes"
