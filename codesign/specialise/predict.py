"""What chosen instructions should save before anything is compiled for them, beside what they do save.

A layer's array has less to do where products leave it, a vector engine where it streams fewer words; transfers are
taken to stay as they are. How much of that is saved depends on how far layers overlap, which the schedule decides. Two
designs take no schedule: `apart` lets each layer wait for the one before; `in_tiles` cuts each layer into as many
tiles, and lets a tile begin when the tile of the layer before and the one behind that are there and its engine is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.advise.effects import ran
from tilewright.codesign.advise.trials import LayerCycles, Trial
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.specialise.candidates import Candidate
from tilewright.codesign.specialise.use import Use
from tilewright.simulator.run_profile import Resource

TILES = 8
"""Tiles of each layer. Of 1, 2, 3, 4, 8 and 16, chosen by the three networks and two instructions of the first table in
docs/specialise.md; that page says how far off each is, and for a network that had no say in it."""

AT_ONCE = 3
"""Layers that are worked on at the same time, at most."""

Bounds = Mapping[str, int]
"""What each resource takes for a layer, in cycles."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles of a network: as it is, predicted if layers do not overlap and if they do in tiles, and simulated."""

    network: str
    before: int
    apart: int
    in_tiles: int
    simulated: int

    @property
    def errors(self) -> tuple[float, float]:
        """How much too many cycles each prediction has, apart first: 0.05 is 5 % too many."""
        return self.apart / self.simulated - 1, self.in_tiles / self.simulated - 1

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "errors": list(self.errors)}


def predictions(candidates: Sequence[Candidate], base: Trial, trial: Trial) -> tuple[Predicted, ...]:
    """For each network that runs."""
    after = {of.network: of.cycles for of in ran(trial)}
    return tuple(
        _predicted(candidates, of, base.layers[of.network], after[of.network])
        for of in ran(base)
        if of.network in after
    )


def _predicted(
    candidates: Sequence[Candidate], of: NetworkFigures, layers: Mapping[str, LayerCycles], simulated: int
) -> Predicted:
    uses: dict[str, list[Use]] = {}
    for candidate in candidates:
        for use in candidate.uses:
            if use.network == of.network:
                uses.setdefault(use.layer, []).append(use)
    before = [layer.bound_cycles for layer in layers.values()]
    after = [_left(uses.get(name, ()), layer) for name, layer in layers.items()]
    return Predicted(
        of.network,
        of.cycles,
        of.cycles - _apart(before) + _apart(after),
        round(of.cycles - _in_tiles(before) + _in_tiles(after)),
        simulated,
    )


def _left(uses: Sequence[Use], layer: LayerCycles) -> Bounds:
    """What each resource takes for a layer with the best candidate in it."""
    return min([layer.bound_cycles, *(_with_use(use, layer) for use in uses)], key=lambda bounds: max(bounds.values()))


def _with_use(use: Use, layer: LayerCycles) -> Bounds:
    left = dict(layer.bound_cycles)
    if use.of_channels:
        left |= {Resource.COMPUTE: 0, Resource.WEIGHTS: 0, Resource.VECTOR: use.words}
    else:
        left[Resource.VECTOR] -= use.words_saved
    return left


def _apart(layers: Sequence[Bounds]) -> int:
    """Each layer takes what its longest resource does."""
    return sum(max(bounds.values()) for bounds in layers)


class _Engines:
    """The array and the vector engine: until when each is busy."""

    def __init__(self) -> None:
        self.array = self.vector = 0.0

    def start(self, ready: float, products: float) -> float:
        """When a tile can begin whose layer before is ready."""
        return max(ready, self.array if products else self.vector)

    def run(self, start: float, products: float, words: float) -> float:
        """When a tile ends. Behind products the vector engine takes words as they come."""
        if words:
            self.vector = max(start + products, max(self.vector, start) + words)
        if products:
            self.array = start + products
        return self.vector if words else start + products


def _in_tiles(layers: Sequence[Bounds]) -> float:
    """Cycles until the last tile of the last layer; of tiles that could begin, the one that can first does."""
    engines, ends = _Engines(), [[0.0] * TILES, *([] for _ in layers)]  # of what comes before the first, all is there
    while waiting := [at for at in range(len(layers)) if len(ends[at + 1]) < TILES][:AT_ONCE]:
        able = [at for at in waiting if len(ends[at]) > min(TILES - 1, len(ends[at + 1]) + 1)]

        def start(at: int) -> float:
            needed = ends[at][min(TILES - 1, len(ends[at + 1]) + 1)]
            return engines.start(needed, _products(layers[at]))

        first = min(able, key=lambda at: (start(at), at))
        ends[first + 1].append(engines.run(start(first), _products(layers[first]), _words(layers[first])))
    return max((max(of) for of in ends[1:]), default=0.0)


def _products(bounds: Bounds) -> float:
    """What a tile takes on the array, its weights included."""
    return max(bounds[Resource.COMPUTE], bounds[Resource.WEIGHTS]) / TILES


def _words(bounds: Bounds) -> float:
    return bounds[Resource.VECTOR] / TILES
