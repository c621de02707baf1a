"""Which component is the hardware of an engine."""

from __future__ import annotations

from typing import Any, assert_never

from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.load import LoadEngine
from tilewright.rtl.mma import MmaEngine
from tilewright.rtl.store import StoreEngine
from tilewright.rtl.vector import VectorEngine


def component_of(machine: Machine, engine: Engine) -> Any:
    """The hardware of an engine, with the members of `engine_members` and those of its ports."""
    match engine.template:
        case Template.DMA:
            unit = LoadEngine if engine.dma.direction is Direction.IN else StoreEngine
            return unit(machine, engine)
        case Template.SYSTOLIC:
            return MmaEngine(machine, engine)
        case Template.VECTOR:
            return VectorEngine(machine, engine)
        case _ as never:
            assert_never(never)
