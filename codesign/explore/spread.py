"""Points spread evenly over a space, and what a search is: it gives points in batches, and takes their figures."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping

from tilewright.codesign.explore.halton import halton_point
from tilewright.codesign.explore.space import MOST_POINTS, Point, Space

Losses = Mapping[Point, tuple[float, ...]]
"""Of the points that were looked at so far and have figures."""

Batches = Generator[list[Point], Losses, None]
"""Gives points to look at, and takes what is known after that. Depends on nothing but the space and these."""

MOST_TRIES = 64
"""Points of a sequence that are tried, for each axis, for one that is allowed and new."""

MOST_SPREAD_TRIES = 20_000
"""The same in a space that has too many points to look through all of them."""

STARTS = 8
"""Points that a local search begins from, if the budget has room for them."""


def spread_points(space: Space, count: int) -> Iterator[Point]:
    """Different allowed points along the sequence; fewer where they grow rare."""
    seen: set[Point] = set()
    index = 0
    is_large = space.size > MOST_POINTS
    tries = MOST_SPREAD_TRIES if is_large else MOST_TRIES * max(1, len(space.axes))
    while len(seen) < count:
        for _ in range(tries):
            index += 1
            point = halton_point(space.axes, index)
            if point not in seen and space.is_allowed(point):
                break
        else:  # hardly any are left: take them in their order
            if is_large:
                if not seen:
                    raise space.too_rare(tries)
                return
            yield from itertools.islice((p for p in space.points() if p not in seen), count - len(seen))
            return
        seen.add(point)
        yield point
