"""What a cycle without a product is lost to: the keys of a profile's `loss`, and which of them an engine causes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.isa.machine.engine import Engine
    from tilewright.isa.machine.machine import Machine  # which loads numpy


class Loss(StrEnum):
    """A cause of lost cycles; docs/profile.md defines each."""

    EDGE = "edge"
    ARRAY = "array"
    VECTOR = "vector"
    LOAD = "load"
    STORE = "store"
    IDLE = "idle"


def loss_of(engine: Engine) -> Loss:
    """What a cycle without a vector through an array is lost to when it belongs to an engine."""
    from tilewright.simulator.templates.table import facet_of  # loads numpy, too

    return facet_of(engine.template).loss(engine)


def in_flight_order(machine: Machine) -> tuple[Engine, ...]:
    """The machine's engines, the one first to which a cycle goes that several work in: as the causes stand in Loss."""
    order = list(Loss)
    return tuple(sorted(machine.engines.values(), key=lambda engine: order.index(loss_of(engine))))
