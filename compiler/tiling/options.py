"""Choices of the tiler that a caller may change when a program does not fit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TilingOptions:
    """What a tile may take, and what stays on chip.

    `budget_fraction`: how much of each memory one tile may take; with 0.5 the next tile fits beside it.
    `residency`: `auto` keeps tensors on chip between layers where they fit, `none` never does.
    """

    budget_fraction: float = 0.5
    residency: str = "auto"
