"""The templates that there are, and where what pages show of each stands."""

from __future__ import annotations

from typing import assert_never

from tilewright.isa.machine.engine import Template
from tilewright.templates.dma import DmaFacet
from tilewright.templates.facet import Facet
from tilewright.templates.systolic import SystolicFacet
from tilewright.templates.vector import VectorFacet


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
