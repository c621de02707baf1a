"""Systolic arrays on pages: in the colour of products, since an array's work is not lost."""

from __future__ import annotations

from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.losses.causes import PRODUCTS
from tilewright.losses.colours import COLOURS
from tilewright.templates.facet import Facet


class SystolicFacet(Facet):
    """By its sizes."""

    def colour(self, engine: Engine) -> str:
        return COLOURS[PRODUCTS]

    def about(self, engine: Engine, machine: Machine) -> str:
        assert isinstance(engine.settings, Systolic)
        return f"{engine.settings.rows}×{engine.settings.cols} products"

    def part(self, engine: Engine) -> str:
        return "array"
