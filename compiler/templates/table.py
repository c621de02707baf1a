"""The templates that there are, where what the compiler knows of each stands, and a machine's instructions by role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tilewright.compiler.templates.dma import DmaFacet
from tilewright.compiler.templates.facet import Facet, Role
from tilewright.compiler.templates.systolic import SystolicFacet
from tilewright.compiler.templates.vector import VectorFacet
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.machine.machine import Machine


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


def formats_with(machine: Machine, role: Role) -> Iterator[InstructionFormat]:
    """The instructions that have a role, of all engines, in file order."""
    return (format for format in machine.distinct_formats if facet_of(format.engine.template).role_of(format) is role)


def arrays_of(machine: Machine) -> tuple[Engine, ...]:
    """The arrays, in file order."""
    return machine.of(Template.SYSTOLIC)
