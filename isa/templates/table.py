"""The templates that there are, where the facts of each stand, and the work of instructions by their templates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import assert_never

from tilewright.isa.machine.encoding import ACCUMULATE, Instruction
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import DmaFacet, dram_period
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.systolic import SystolicFacet
from tilewright.isa.templates.vector import VectorFacet
from tilewright.isa.templates.work import Task, Work


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


def works_of(machine: Machine, instructions: Iterable[Instruction]) -> Iterator[Work]:
    """The work of each instruction; those that are alike share one object."""
    known: dict[Hashable, Work] = {}
    period = dram_period(machine)
    for instruction in instructions:
        outside = instruction.format.in_dram
        place = 0 if outside is None else instruction.base(outside.name) % period
        key = place, instruction.format.shape(instruction.values)
        work = known.get(key)
        if work is None:
            work = known[key] = facet_of(instruction.engine.template).work(machine, _task(instruction, place))
        yield work


def _task(instruction: Instruction, place: int) -> Task:
    format, outside = instruction.format, instruction.format.in_dram
    strides = () if outside is None else tuple(instruction.strides(outside).values())
    adds = format.has_accumulate and instruction[ACCUMULATE] == 1
    return Task(format, tuple(instruction.trips.values()), adds, place, strides)
