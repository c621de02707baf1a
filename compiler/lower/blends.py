"""The places of a linear interpolation along one dimension, by their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.compiler.lower.moves import IndexRun


@dataclass(frozen=True, slots=True)
class Blend:
    """Places of a result with the same weights: that of an element, and that of the next one unless it is 0."""

    run: IndexRun
    weights: tuple[int, ...]


def blends(weights: Sequence[int], size: int) -> list[Blend]:
    """The rows or columns of an interpolation as few blends; without weights, every element is as it was."""
    triples = list(zip(weights[::3], weights[1::3], weights[2::3], strict=True)) or [(i, 1, 0) for i in range(size)]
    kinds = dict.fromkeys((a, b) if b else (1,) for _, a, b in triples)
    found = []
    for kind in kinds:
        places = [p for p, (_, a, b) in enumerate(triples) if ((a, b) if b else (1,)) == kind]
        found += [Blend(run, kind) for run in _runs_at(places, [triples[p][0] for p in places])]
    return found


def _runs_at(places: list[int], sources: list[int]) -> list[IndexRun]:
    """Pairs of places and sources as runs, in each of which both advance by one step."""
    found, start = [], 0
    while start < len(places):
        stop = start + 1
        steps = None
        while stop < len(places):
            by = (places[stop] - places[stop - 1], sources[stop] - sources[stop - 1])
            if steps not in (None, by):
                break
            steps, stop = by, stop + 1
        to_step, source_step = steps or (1, 1)
        found.append(IndexRun(stop - start, places[start], to_step, sources[start], source_step))
        start = stop
    return found
