"""The templates that there are, and where the state of each in the cycle model stands."""

from __future__ import annotations

from typing import assert_never

from tilewright.isa.machine.engine import Template
from tilewright.simulator.templates.dma import DmaFacet
from tilewright.simulator.templates.facet import Facet
from tilewright.simulator.templates.systolic import SystolicFacet
from tilewright.simulator.templates.vector import VectorFacet


def facet_of(template: Template) -> Facet:
    """What this package knows of a template."""
    match template:
        case Template.DMA:
            return DmaFacet()
        case Template.SYSTOLIC:
            return SystolicFacet()
        case Template.VECTOR:
            return VectorFacet()
        case _ as never:
            assert_never(never)
