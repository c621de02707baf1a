"""A unit of a machine with what it takes, as a price states it."""

from __future__ import annotations

from dataclasses import dataclass

SYNTHESISED = "synthesised"
ESTIMATED = "estimated"
FITTED = "fitted"


@dataclass(frozen=True, slots=True)
class PricedUnit:
    """Logic under one name. `basis`: SYNTHESISED as it is, ESTIMATED from one of the parts that it repeats, or
    FITTED to the price of a machine of other sizes.

    With clock gating, flip-flops are behind gates in two ways. `payload`: clocked while their engine has something in
    flight. `gated`: each clocked when it is enabled; `clocked` of these are so in one event, at most.
    """

    name: str
    area_um2: float
    flip_flops: int
    multipliers: int
    basis: str
    payload: int = 0
    gated: int = 0
    clocked: int = 0
    clock_gates: int = 0
