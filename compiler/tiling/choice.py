"""The tile sizes of a nest: computes the cost of all candidates at once, and finds the cheapest that fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.session import MemoStage
from tilewright.compiler.tiling.cost import ExpectedCycles, expected_cycles
from tilewright.compiler.tiling.cost_terms import Surroundings, tile_counts
from tilewright.compiler.tiling.options import TileSizes
from tilewright.compiler.tiling.room import Room, shared_words, tile_words, too_small
from tilewright.compiler.tiling.shape import NestShape, Sizes, extents
from tilewright.isa.machine.machine import Machine

WIDE_WINDOW = 4
"""A window with fewer taps than this in a direction is cut there only if no two tiles fit side by side otherwise."""

BESIDE = 0.5
"""The share of its memories that a layer without products has to itself: another one may run beside it."""


MOST_TILES = 1024
"""A search tries no way to cut a nest into more tiles than this, unless the best has more: each takes a millisecond."""


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


@dataclass(frozen=True)
class Cuts:
    """All tiles of a nest that are considered, and what follows of each from the shape of the nest alone.

    Nests that are alike have the same, whatever room there is for their tiles.
    """

    sizes: Mapping[str, Sizes]
    points_outer: NDArray[np.bool_]
    words: Mapping[str, Sizes]  # by memory
    shared: Mapping[str, Sizes]  # of these, the words of tables that all tiles look up in
    expected: ExpectedCycles
    tiles: Sizes  # how many a nest is cut into, partial sums counted
    pieces: tuple[Sizes, ...]  # how many along each loop over pixels, over channels and over what is summed

    @staticmethod
    def of(shape: NestShape, machine: Machine, cut_from: int, around: Surroundings) -> Cuts:
        """All combinations of a few sizes for each loop; a window is cut where it has so many taps in a direction."""
        sizes, points_outer = _all_sizes(shape, cut_from)
        space, extent, counts = shape.cover.space, extents(shape), tile_counts(shape, sizes)
        pieces = [-(-extent[loop] // sizes[loop]) for loop in (*space.points, space.lane)]
        return Cuts(
            sizes,
            points_outer,
            tile_words(shape, machine, sizes),
            shared_words(shape, machine, sizes),
            expected_cycles(shape, machine, sizes, points_outer, counts, around),
            counts.all,
            (*pieces, counts.partial_sums),
        )


def most_tiles(shapes: Sequence[NestShape], choices: Sequence[TileChoice]) -> int:
    """How many tiles the nest has that is cut into most, partial sums counted."""
    return max(map(_tiles, shapes, choices), default=0)


def _tiles(shape: NestShape, choice: TileChoice) -> int:
    return prod(-(-extent // choice.sizes.get(loop, extent)) for loop, extent in extents(shape).items())


CUTS = MemoStage[Cuts](4_096)
"""By machine, what nests are alike in, and the taps from which windows are cut."""


@dataclass(frozen=True)
class Candidates:
    """The tiles of a nest in the room that there is: which of them fit, and what the model expects of each."""

    cuts: Cuts
    is_double: NDArray[np.bool_]
    is_possible: NDArray[np.bool_]
    cycles: NDArray[np.float64]

    @property
    def tiles(self) -> Sizes:
        """How many tiles a nest is cut into, partial sums counted."""
        return self.cuts.tiles

    def best(self, wanted: TileSizes | None) -> TileChoice:
        """The tile that is wanted, if it is among those that fit, or else the cheapest of them."""
        if wanted is not None:
            same = np.flatnonzero(self.is_possible & self._are(wanted))
            if same.size:
                return self.choice(int(same[0]))
        return self.choice(int(np.argmin(self._costs)))

    def ranked(self, most: int) -> list[TileChoice]:
        """The cheapest tile of each kind, cheapest first, at most so many.

        Tiles are of a kind if they have the same loop order, where there is one, and, to a factor of two, as many tiles
        over pixels, over channels and over partial sums.
        """
        *over_pixels, over_channels, _ = self.cuts.pieces
        has_order = (np.maximum.reduce(over_pixels) > 1) & (over_channels > 1)
        of_order = self.cuts.points_outer & has_order, self.is_double
        kinds = np.stack([*np.log2(self.cuts.pieces).round(), *of_order], axis=1).astype(np.int64)
        ranked: dict[tuple[int, ...], int] = {}
        for index in self.cheapest_first():
            ranked.setdefault(tuple(kinds[index].tolist()), int(index))
            if len(ranked) == most:
                break
        return [self.choice(index) for index in ranked.values()]

    def cheapest_first(self) -> NDArray[np.int64]:
        """The candidates that fit and have few enough tiles to be measured."""
        order = np.argsort(self._costs, kind="stable")[: int(self.is_possible.sum())]
        return order[self._is_tried[order]]

    def finer(self, times: int) -> TileChoice:
        """The cheapest with at least so many times the tiles that the best one has, or with the most that there are."""
        most = self.tiles[self.is_possible & self._is_tried].max()
        least = min(int(most), times * int(self.tiles[np.argmin(self._costs)]))
        return self.choice(int(np.argmin(np.where(self.tiles >= least, self._costs, np.inf))))

    def in_pieces(self, count: int, of_fewest: bool = False) -> TileChoice | None:
        """The cheapest of those with so many pieces over pixels, which are outside of those over channels.

        `of_fewest`: of those that are fewest tiles in all. None if nothing is cut so.
        """
        *over_pixels, over_channels, _ = self.cuts.pieces
        is_outer = self.cuts.points_outer | (over_channels == 1)
        found = self.is_possible & self._is_tried & is_outer & (np.multiply.reduce(over_pixels) == count)
        if not found.any():
            return None
        if of_fewest:
            found &= self.tiles == self.tiles[found].min()
        return self.choice(int(np.argmin(np.where(found, self.cycles, np.inf))))

    def choice(self, index: int) -> TileChoice:
        return TileChoice(
            {loop: int(size[index]) for loop, size in self.cuts.sizes.items()},
            bool(self.cuts.points_outer[index]),
            bool(self.is_double[index]),
            {memory: int(needed[index]) for memory, needed in self.cuts.words.items()},
            int(self.cycles[index]),
        )

    @cached_property
    def _costs(self) -> NDArray[np.float64]:
        """The cycles of those that fit, infinity for the others."""
        return np.where(self.is_possible, self.cycles, np.inf)

    @cached_property
    def _is_tried(self) -> NDArray[np.bool_]:
        """Which have few enough tiles that other ways than the best are measured."""
        return self.tiles <= max(MOST_TILES, int(self.tiles[np.argmin(self._costs)]))

    def _are(self, wanted: TileSizes) -> NDArray[np.bool_]:
        """Which candidates are cut as wanted."""
        sizes = self.cuts.sizes
        if not sizes.keys() <= wanted.sizes.keys():
            return np.zeros_like(self.is_possible)
        same = [own == wanted.sizes[loop] for loop, own in sizes.items()]  # other loops are whole in any tile
        return np.logical_and.reduce([*same, self.cuts.points_outer == wanted.points_outer])


def candidates(
    shape: NestShape,
    machine: Machine,
    room: Mapping[str, Room],
    fraction: float,
    around: Surroundings,
    known: Callable[[int, Callable[[], Cuts]], Cuts],
) -> Candidates:
    """The tiles of a nest, of which one at a time may take all `room`, and two together about `fraction` of it each.

    `known` gives the cuts of nests that are alike, by the taps from which windows are cut, or makes them. Raises
    TooSmall naming the layer, the memory, what is needed and what there is when nothing fits.
    """
    share = fraction if shape.cover.dot is not None else fraction * BESIDE
    for cut_from in (WIDE_WINDOW, 2) if shape.taps else (WIDE_WINDOW,):
        cuts = known(cut_from, partial(Cuts.of, shape, machine, cut_from, around))
        words, shared = cuts.words, cuts.shared
        is_possible = _all_within(words, {m: min(2 * fraction * r.free, r.most) for m, r in room.items()})
        if not is_possible.any():
            is_possible = _all_within(words, {m: r.most for m, r in room.items()})
        own = {m: needed - shared[m] for m, needed in words.items()}
        is_double = _all_within(own, {m: np.minimum(share * (r.free - shared[m]), r.longest) for m, r in room.items()})
        if (is_possible & is_double).any():
            break
    if not is_possible.any():
        raise too_small(shape, machine, room, words)
    is_triple = _all_within(own, {m: fraction * (r.free - shared[m]) * 2 / 3 for m, r in room.items()})
    return Candidates(cuts, is_double, is_possible, cuts.expected.where(is_double, is_triple))


def _all_within(words: Mapping[str, Sizes], limits: Mapping[str, float | NDArray[np.float64]]) -> NDArray[np.bool_]:
    """The candidates whose words in every memory are within its limit."""
    return np.logical_and.reduce([needed <= limits[memory] for memory, needed in words.items()])


def _all_sizes(shape: NestShape, cut_from: int) -> tuple[dict[str, Sizes], NDArray[np.bool_]]:
    """All combinations of a few sizes for each loop, and both loop orders; taps are cut from an extent on."""
    space, extent = shape.cover.space, extents(shape)
    # Of equal candidates the first is taken: loops that are better left whole come first.
    choices = {loop: [extent[loop]] for loop in (NO_LOOP, *space.reduce)}
    adds = shape.cover.dot is None or shape.cover.dot.continuing is not None
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
