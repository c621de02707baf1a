"""Which points of a space are looked at, batch by batch: all, spread evenly, or where figures of others lead."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.extras import require
from tilewright.codesign.explore.front import front
from tilewright.codesign.explore.space import MOST_POINTS, Point, Space
from tilewright.codesign.explore.spread import STARTS, Batches, spread_points


def exhaustive(space: Space, budget: int | None) -> Batches:
    """All points, or the first of them. Raises StudyError for more than anybody waits for."""
    bounded(space, budget)
    yield list(itertools.islice(space.points(), budget))


def spread(space: Space, budget: int | None) -> Batches:
    """Points of a Halton sequence: any number of them is spread evenly over the space."""
    yield list(spread_points(space, bounded(space, budget)))


def local(space: Space, budget: int | None) -> Batches:
    """From some spread points, again and again the neighbours of those on the front, until nothing is left to try."""
    left = bounded(space, budget)
    seen: set[Point] = set()
    expanded: set[Point] = set()
    batch = list(spread_points(space, min(STARTS, max(1, left // 4))))
    while batch and left > 0:
        batch = batch[:left]
        left -= len(batch)
        seen.update(batch)
        known = yield batch
        best = [point for point in front(known.items()) if point not in expanded]
        expanded.update(best)
        batch = [point for point in _neighbours(space, best) if point not in seen]


def tpe(space: Space, budget: int | None) -> Batches:
    """Optuna's tree of Parzen estimators: where good points are dense and others are not. Raises StudyError."""
    require("optuna", "search", "--search tpe")
    from tilewright.codesign.explore.optuna_search import tpe_batches

    return tpe_batches(space, bounded(space, budget))


def nsga(space: Space, budget: int | None) -> Batches:
    """Optuna's NSGA-II: generations of points that are crossed and mutated from the best before. Raises StudyError."""
    require("optuna", "search", "--search nsga")
    from tilewright.codesign.explore.optuna_search import nsga_batches

    return nsga_batches(space, bounded(space, budget))


@dataclass(frozen=True, slots=True)
class Search:
    """A way to choose points."""

    batches: Callable[[Space, int | None], Batches]
    is_learning: bool = False  # its points follow from the figures of others: it takes no shards, and is compared
    needs_all: bool = False  # it learns from every point, also from one that others beat: none is dropped


ALL = "all"

SEARCHES: Mapping[str, Search] = {
    ALL: Search(exhaustive),
    "spread": Search(spread),
    "local": Search(local, is_learning=True),
    "tpe": Search(tpe, is_learning=True, needs_all=True),
    "nsga": Search(nsga, is_learning=True, needs_all=True),
}

BASELINE = "spread"
"""What searches that learn are compared with, at the same number of points."""


def bounded(space: Space, budget: int | None) -> int:
    """The budget, or all points. Raises StudyError without a budget for more points than anybody waits for."""
    if budget is None and space.size > MOST_POINTS:
        raise StudyError(
            f"the space has {space.size_text} points; without a budget, {MOST_POINTS:,} are looked at; "
            "--search spread --budget 1000 looks at some of them"
        )
    return space.size if budget is None else budget


def search_named(name: str) -> Search:
    """Raises StudyError for a search that is not known."""
    if name not in SEARCHES:
        raise StudyError(f"no search {name!r}; there are: {', '.join(SEARCHES)}")
    return SEARCHES[name]


def _neighbours(space: Space, points: Sequence[Point]) -> list[Point]:
    """One step up or down along each axis, once each."""
    found: dict[Point, None] = {}
    for point in points:
        for at, axis in enumerate(space.axes):
            place = axis.values.index(point[at])
            for other in (place - 1, place + 1):
                if 0 <= other < len(axis.values):
                    neighbour = (*point[:at], axis.values[other], *point[at + 1 :])
                    if space.is_allowed(neighbour):
                        found[neighbour] = None
    return list(found)
