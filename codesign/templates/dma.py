"""What DMA engines cost: their energy is not measured."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codesign.templates.facet import Facet
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


class DmaFacet(Facet):
    """A unit for each engine."""

    def units(self, machine: Machine, engine: Engine) -> Mapping[str, str]:
        return {engine.name: engine.name}
