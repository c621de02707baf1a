"""Chooses the tile sizes of a nest: computes the cost of all candidates at once and takes the cheapest that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.tiling.cost import expected_cycles, tile_counts
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.room import Room, too_small
from tilewright.compiler.tiling.shape import NestShape, Sizes, extents
from tilewright.compiler.tiling.words import shared_words, tile_words
from tilewright.isa.machine.machine import Machine

WIDE_WINDOW = 4
"""A window with fewer taps than this in a direction is cut there only if no two tiles fit side by side otherwise."""

BESIDE = 0.5
"""The share of its memories that a layer without products has to itself: another one may run beside it."""


@dataclass(frozen=True)
class TileChoice:
    """Sizes of one tile by loop: iterations; of the lane loop, units; of the summed loop, vectors."""

    sizes: Mapping[str, int]
    points_outer: bool  # pixels are the outer loops and units the inner; otherwise the other way round
    is_double: bool  # two tiles fit side by side
    words: Mapping[str, int]  # by memory
    cycles: int  # what the model expects

    @property
    def as_wanted(self) -> TileSizes:
        """What `TilingOptions.tiles` takes to get this choice again."""
        return TileSizes(self.sizes, self.points_outer)


def choose_tile(shape: NestShape, machine: Machine, room: Mapping[str, Room], options: TilingOptions) -> TileChoice:
    """The tile that the options want, if it fits the room in each memory, or else the cheapest that does.

    Raises TooSmall naming the layer, the memory, what is needed and what there is when nothing fits.
    """
    found = candidates(shape, machine, room, options)
    wanted = options.tiles.get(shape.cover.nest.name)
    if wanted is not None:
        same = np.flatnonzero(found.is_possible & found.are(wanted))
        if same.size:
            return found.choice(int(same[0]))
    return found.choice(int(np.argmin(found.costs)))


def ranked_tiles(
    shape: NestShape, machine: Machine, room: Mapping[str, Room], options: TilingOptions, most: int
) -> list[TileChoice]:
    """The cheapest tile of each kind, cheapest first, at most so many.

    Tiles are of a kind if they have the same loop order and, to a factor of two, as many tiles over pixels, over
    channels and over partial sums. Raises TooSmall as `choose_tile` does.
    """
    found = candidates(shape, machine, room, options)
    kinds = found.kinds(shape)
    ranked: dict[tuple[int, ...], int] = {}
    for index in np.argsort(found.costs, kind="stable")[: int(found.is_possible.sum())]:
        ranked.setdefault(tuple(kinds[index].tolist()), int(index))
        if len(ranked) == most:
            break
    return [found.choice(index) for index in ranked.values()]


def finer_tile(
    shape: NestShape, machine: Machine, room: Mapping[str, Room], options: TilingOptions, times: int
) -> TileChoice:
    """The cheapest with at least so many times the tiles that the best one has, or with the most that there are.

    Raises TooSmall as `choose_tile` does.
    """
    found = candidates(shape, machine, room, options)
    most = found.tiles[found.is_possible].max()
    least = min(int(most), times * int(found.tiles[np.argmin(found.costs)]))
    return found.choice(int(np.argmin(np.where(found.tiles >= least, found.costs, np.inf))))


@dataclass(frozen=True)
class Candidates:
    """All candidates, which of them fit, and what the model expects of each."""

    sizes: Mapping[str, Sizes]
    points_outer: NDArray[np.bool_]
    is_double: NDArray[np.bool_]
    is_possible: NDArray[np.bool_]
    words: Mapping[str, Sizes]
    cycles: NDArray[np.float64]
    tiles: Sizes  # how many a nest is cut into, partial sums counted

    @property
    def costs(self) -> NDArray[np.float64]:
        """The cycles of those that fit, infinity for the others."""
        return np.where(self.is_possible, self.cycles, np.inf)

    def are(self, wanted: TileSizes) -> NDArray[np.bool_]:
        """Which candidates are cut as wanted."""
        if wanted.sizes.keys() != self.sizes.keys():
            return np.zeros_like(self.is_possible)
        same = [self.sizes[loop] == size for loop, size in wanted.sizes.items()]
        return np.logical_and.reduce([*same, self.points_outer == wanted.points_outer])

    def kinds(self, shape: NestShape) -> NDArray[np.int64]:
        """A row for each candidate that is the same for tiles of the same kind."""
        space, extent = shape.cover.space, extents(shape)
        pieces = [-(-extent[loop] // self.sizes[loop]) for loop in (*space.points, space.lane)]
        counts = [*pieces, tile_counts(shape, self.sizes).partial_sums]
        return np.stack([*np.log2(counts).round(), self.points_outer, self.is_double], axis=1).astype(np.int64)

    def choice(self, index: int) -> TileChoice:
        return TileChoice(
            {loop: int(size[index]) for loop, size in self.sizes.items()},
            bool(self.points_outer[index]),
            bool(self.is_double[index]),
            {memory: int(needed[index]) for memory, needed in self.words.items()},
            int(self.cycles[index]),
        )


def candidates(shape: NestShape, machine: Machine, room: Mapping[str, Room], options: TilingOptions) -> Candidates:
    share = options.budget_fraction if shape.cover.dot is not None else options.budget_fraction * BESIDE
    for cut_from in (WIDE_WINDOW, 2):
        sizes, points_outer = _all_sizes(shape, cut_from)
        words = tile_words(shape, machine, sizes)
        is_possible = _all_within(
            words, {m: min(2 * options.budget_fraction * r.free, r.most) for m, r in room.items()}
        )
        if not is_possible.any():
            is_possible = _all_within(words, {m: r.most for m, r in room.items()})
        shared = shared_words(shape, machine, sizes)
        own = {m: needed - shared[m] for m, needed in words.items()}
        is_double = _all_within(own, {m: np.minimum(share * (r.free - shared[m]), r.longest) for m, r in room.items()})
        if (is_possible & is_double).any():
            break
    if not is_possible.any():
        raise too_small(shape, machine, room, words)
    is_triple = _all_within(own, {m: options.budget_fraction * (r.free - shared[m]) * 2 / 3 for m, r in room.items()})
    cycles = expected_cycles(shape, machine, sizes, points_outer, is_double, is_triple)
    tiles = tile_counts(shape, sizes).all
    return Candidates(sizes, points_outer, is_double, is_possible, words, cycles, tiles)


def _all_within(words: Mapping[str, Sizes], limits: Mapping[str, float | NDArray[np.float64]]) -> NDArray[np.bool_]:
    """The candidates whose words in every memory are within its limit."""
    return np.logical_and.reduce([needed <= limits[memory] for memory, needed in words.items()])


def _all_sizes(shape: NestShape, cut_from: int) -> tuple[dict[str, Sizes], NDArray[np.bool_]]:
    """All combinations of a few sizes for each loop, and both loop orders; taps are cut from an extent on."""
    space, extent = shape.cover.space, extents(shape)
    # Of equal candidates the first is taken: loops that are better left whole come first.
    choices = {loop: [extent[loop]] for loop in (NO_LOOP, *space.reduce)}
    adds = shape.cover.dot is None or shape.cover.dot.format.has_accumulate
    for loop, most in ((space.column, 6), (shape.summed, 8), (space.batch, 6), (space.lane, 8), (space.row, 10)):
        choices[loop] = _even_sizes(extent[loop], most) if loop != NO_LOOP else [1]
    choices |= {loop: [1] for loop in shape.choosing}
    if space.across != NO_LOOP:  # what is the same for all channels of a pixel is computed once
        choices[space.lane] = [extent[space.lane]]
    for tap in shape.taps:
        choices[tap] = [extent[tap]] if extent[tap] < cut_from else _even_sizes(extent[tap], 4)
    if not adds:  # the second part of a sum would take the place of the first
        choices |= {loop: [extent[loop]] for loop in (shape.summed, *shape.taps)}
    orders = [False, True] if shape.cover.dot is not None else [True, False]
    grids = np.meshgrid(*(np.array(c, np.int64) for c in choices.values()), np.array(orders), indexing="ij")
    flat = [grid.ravel() for grid in grids]
    return dict(zip(choices, flat[:-1], strict=True)), flat[-1].astype(bool)


def _even_sizes(extent: int, most: int) -> list[int]:
    """Tile sizes that cut an extent into 1, 2, 3, … even pieces, at most `most` of them, 1 always among them."""
    sizes = sorted({-(-extent // count) for count in range(1, extent + 1)}, reverse=True)
    if len(sizes) <= most:
        return sizes
    spread = np.unique(np.geomspace(1, len(sizes), most).round().astype(int)) - 1
    return [sizes[i] for i in spread]
