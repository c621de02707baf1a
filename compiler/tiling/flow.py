"""How long tiles take that pass several engines one after the other, each engine at work on another tile.

In the theory of schedules this is a flow shop. It takes as long as its longest path from the first tile on the first
engine to the last tile on the last one, where each step is to the next tile of an engine or to a tile's next engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.tiling.shape import Cycles, Flags, NestShape, Sizes
from tilewright.compiler.tiling.tile_counts import TileCounts


@dataclass(frozen=True, slots=True)
class TileShare:
    """A tile: the share of a nest's results that it has, and the share of those after it."""

    own: Cycles
    after: Cycles


@dataclass(frozen=True, slots=True)
class Shares:
    """The first tile, which is a whole one, the last whole one, the one before the last, and the last one."""

    first: Cycles
    turns: tuple[TileShare, ...]
    last: Cycles


@dataclass(frozen=True, slots=True)
class EngineShare:
    """The cycles of an engine: all, and what it takes for the first tile if that is not its share of all.

    A tile is divided into so many `parts`, and the next stage begins when it has the first of them. So many tiles are
    `beside` each other, on average, on engines that share the work.
    """

    all: Cycles
    parts: Sizes | int = 1
    first: Cycles | float | None = None
    beside: Cycles | int = 1

    def of(self, share: Cycles) -> Cycles:
        return self.all * self.beside * share / self.parts


def pipelined(stages: Sequence[EngineShare], shares: Shares) -> Cycles:
    """The cycles of stages that tiles pass one after the other.

    The longest path is along one stage nearly to its end, perhaps along a second one for the last tiles, and elsewhere
    through the stages with the first tile or the last.
    """
    last = [stage.of(shares.last) for stage in stages]
    longest, begins = np.zeros(shares.last.shape), np.zeros(shares.last.shape)
    for position, stage in enumerate(stages):
        longest = np.maximum(longest, begins + stage.all + sum(last[position + 1 :]))
        for turn in shares.turns:
            path = begins + stage.all * (1 - turn.after)
            for other in range(position + 1, len(stages)):
                path = path + stages[other].of(turn.own)
                rest = stages[other].all * turn.after + sum(last[other + 1 :])
                longest = np.maximum(longest, path + rest)
        begins = begins + (stage.of(shares.first) if stage.first is None else stage.first)
    return longest


def even_shares(count: TileCounts) -> Shares:
    """The shares where each tile has as much as the others."""
    share = 1 / count.results
    return Shares(share, (), share)


def shares_of(shape: NestShape, count: TileCounts, sizes: Mapping[str, Sizes], points_outer: Flags) -> Shares:
    """The shares, with channels as the innermost of the loops over tiles or as the outermost."""
    space = shape.cover.space
    whole, last = {}, {}
    for loop in (*space.points, space.lane):
        extent = count.extent[loop]
        whole[loop] = np.minimum(sizes[loop], extent) / extent
        last[loop] = ((extent - 1) % sizes[loop] + 1) / extent
    inner, outer = (_turns(order, whole, last) for order in _orders(space.points, space.lane))
    turns = tuple(
        TileShare(np.where(points_outer, a.own, b.own), np.where(points_outer, a.after, b.after))
        for a, b in zip(inner, outer, strict=True)
    )
    return Shares(_product(whole), turns, _product(last))


def _orders(points: Sequence[str], lane: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Loops over tiles from the innermost on: with channels first, and with channels last."""
    return (lane, *reversed(points)), (*reversed(points), lane)


def _turns(order: Sequence[str], whole: Mapping[str, Cycles], last: Mapping[str, Cycles]) -> tuple[TileShare, ...]:
    """The last whole tile, and the one before the last: that is whole along the innermost loop with several tiles."""
    ones = np.ones_like(whole[order[0]])
    before, is_found, outside, after_whole = ones, ones < 1, ones, ones * 0
    for loop in reversed(order):
        after_whole = after_whole + np.where(last[loop] < whole[loop], last[loop] * outside, 0)
        outside = outside * whole[loop]
    for loop in order:
        is_it = ~is_found & (whole[loop] < 1)
        before = before * np.where(is_it, whole[loop], last[loop])
        is_found = is_found | is_it
    ending = _product(last)
    return TileShare(outside, after_whole), TileShare(np.where(is_found, before, 0), np.where(is_found, ending, 0))


def _product(shares: Mapping[str, Cycles]) -> Cycles:
    product: Cycles = np.multiply.reduce(list(shares.values()))
    return product
