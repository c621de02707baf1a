"""Where the boxes of the network's graph stand: rows down along the network, in strips beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT, ROW = 40, 58
"""Of a box, and from one row to the next, in pixels."""

LEFT, TOP = 12, 10

PAGE_WIDTH, NARROWEST, WIDEST, GAP = 1180, 280, 340, 44
"""The graph fills the page's width, as far as its boxes are no wider than a phone; `GAP` is between two columns."""

FEWEST_ROWS, MOST_ROWS, STRIPS = 3, 8, 4
"""A strip has so many rows that no box of the page scrolls down, and about so many strips are seen at once."""


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """The left upper corner of a box, in which strip it is, and its width."""

    x: float
    y: float
    strip: int
    width: float


def strips(places: Sequence[tuple[int, int]]) -> tuple[list[DrawnBox], int, int]:
    """The boxes of (row, column) and the picture's width and height: rows are cut into strips of equal height."""
    rows = 1 + max((row for row, _ in places), default=0)
    each = min(MOST_ROWS, max(FEWEST_ROWS, -(-rows // STRIPS)))
    count = -(-rows // each)
    columns = [1 + max((column for row, column in places if row // each == strip), default=0) for strip in range(count)]
    width = min(WIDEST, max(NARROWEST, PAGE_WIDTH // sum(columns) - GAP))
    begins = [LEFT + sum(columns[:strip]) * (width + GAP) for strip in range(count)]
    boxes = [
        DrawnBox(begins[row // each] + column * (width + GAP), TOP + row % each * ROW, row // each, width)
        for row, column in places
    ]
    return boxes, LEFT + sum(columns) * (width + GAP), 2 * TOP + (min(rows, each) - 1) * ROW + HEIGHT


def way(one: DrawnBox, other: DrawnBox) -> str:
    """The path of an edge: down to the next row, beside the boxes where it passes some, across to another strip."""
    if one.strip != other.strip:
        x, y, to_x, to_y = one.x + one.width, one.y + HEIGHT / 2, other.x, other.y + HEIGHT / 2
        return f"M{x:g} {y:g}C{x + GAP:g} {y:g} {to_x - GAP:g} {to_y:g} {to_x:g} {to_y:g}"
    if one.x == other.x and other.y != one.y + ROW:
        side, above, below = one.x + one.width, one.y + HEIGHT / 2, other.y + HEIGHT / 2
        out = side + min(GAP, 14 + abs(other.y - one.y) / 12)
        return f"M{side:g} {above:g}C{out:g} {above:g} {out:g} {below:g} {side:g} {below:g}"
    x, y, to_x, to_y = one.x + one.width / 2, one.y + HEIGHT, other.x + other.width / 2, other.y
    middle = (y + to_y) / 2
    return f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
