"""A unit of a machine with what it takes, as a price states it."""

from __future__ import annotations

from dataclasses import dataclass

SYNTHESISED = "synthesised"
ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Unit:
    """Logic under one name. `basis`: SYNTHESISED as it is, or ESTIMATED from one of the parts that it repeats."""

    name: str
    area_um2: float
    flip_flops: int
    multipliers: int
    basis: str
