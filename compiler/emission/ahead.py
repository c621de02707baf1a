"""How far operations may move ahead of their turn: what a search for the order of a program decides."""

from __future__ import annotations

from dataclasses import dataclass

EIGHTHS = 8
"""All of a memory."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """`loads`: so many loads at most may pass an operation; None: as many as there is room for.

    `eighths`: what operations ahead of their turn may fill of each memory, besides what is there at their turn anyway.
    `by_rows`: layers beside each other go on together, row by row; if not, the one in front goes first.
    """

    loads: int | None = None
    eighths: int = EIGHTHS
    by_rows: bool = False


EVERYTHING_AHEAD = Ahead()
"""As far as there is room."""

NOTHING_AHEAD = Ahead(loads=0)
"""Every operation waits for its turn."""
