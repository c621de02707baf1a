"""How far operations may move ahead of their turn: what a search for the order of a program decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

EIGHTHS = 8
"""All of a memory."""


class Mix(Enum):
    """Which operation an engine takes next, of layers beside each other."""

    FRONT_FIRST = "front first"  # that of the layer in front, if it wants the engine in time
    BALANCED = "balanced"  # that of the layer in front; where another engine would stand still, what gives it most work
    ROW_BY_ROW = "row by row"  # that of the layer which has come least far


@dataclass(frozen=True, slots=True)
class Ahead:
    """`loads`: so many loads at most may pass an operation; None: as many as there is room for.

    `eighths`: what operations ahead of their turn may fill of each memory, besides what is there at their turn anyway.
    `mix`: how layers beside each other are mixed; None: balanced where layers are in stripes, else front first.
    `idle`: the names of engines that get no work which another one can do; all others share what several can do.
    """

    loads: int | None = None
    eighths: int = EIGHTHS
    mix: Mix | None = None
    idle: frozenset[str] = frozenset()


EVERYTHING_AHEAD = Ahead()
"""As far as there is room."""

NOTHING_AHEAD = Ahead(loads=0)
"""Every operation waits for its turn."""
