"""The templates that there are, and where the costs of each stand."""

from __future__ import annotations

from typing import assert_never

from tilewright.codesign.templates.dma import DmaFacet
from tilewright.codesign.templates.facet import Facet
from tilewright.codesign.templates.systolic import SystolicFacet
from tilewright.codesign.templates.vector import VectorFacet
from tilewright.isa.machine.engine import Template


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
