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
    """

    name: str
    area_um2: float
    flip_flops: int
    multipliers: int
    basis: str
