"""A constant matrix cut into the tiles that the array takes, without those that are zero.

Example, a 16×16 array and weights [O=20, I=8, R=3, S=3]: 2 units of 16 outputs, 1 block of 16 inputs, so 2·9 tiles of
16×16; rows 8 to 15 are zero, and of unit 1 so are columns 4 to 15. Tiles that are wholly zero at the edges of a unit
are not kept: of a depthwise convolution's 64 blocks of inputs each unit holds one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.nest import Access, Affine
from tilewright.compiler.tiling.constants import pack_elements
from tilewright.isa.machine.memory import Element

Box = tuple[range, ...]
"""Ranges of the summed block and of each tap."""

DIMENSIONS = 4
"""Of weights that fit their element: result channels, summed channels, rows and columns of taps."""

AT_ONCE = 1 << 20
"""About so many weights are cut at a time: numpy takes as long to begin with few, and more would fill the memory."""


@dataclass(frozen=True)
class WeightTiles:
    """A constant matrix as tiles, by unit of result channels, summed block and tap; `taps` names the loops of the taps.

    `rows` are the summed channels that the array takes at once, all of a tile. `boxes` has for each unit the smallest
    box outside which its weights are zero, never empty, and `pieces` boxes in it that do not overlap, outside which
    they are zero, too; `tiles` what is in the box, [tap…, summed block, row, column]; of a matrix that is computed
    there are none.
    """

    summed: str
    taps: tuple[str, ...]
    rows: int
    boxes: tuple[Box, ...]
    pieces: tuple[tuple[Box, ...], ...]
    tiles: tuple[NDArray[Any], ...] = ()

    @property
    def units(self) -> int:
        return len(self.boxes)

    def hull(self, units: range) -> Box:
        """The smallest box that holds the boxes of some units."""
        boxes = [self.boxes[unit] for unit in units]
        return tuple(
            range(min(box[axis].start for box in boxes), max(box[axis].stop for box in boxes))
            for axis in range(len(self.taps) + 1)
        )

    def reach(self, count: int) -> tuple[int, int]:
        """The most that a tile of `count` units has: summed blocks that its weights reach over, and weight tiles."""
        if count not in self._reaches:
            first_units = np.arange(0, self.units, count)
            starts, stops, volumes = self._extents
            blocks = np.maximum.reduceat(stops, first_units) - np.minimum.reduceat(starts, first_units)
            self._reaches[count] = int(blocks.max()), int(np.add.reduceat(volumes, first_units).max())
        return self._reaches[count]

    def reaches(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What `reach` says of each of many counts, of which only few differ."""
        known = np.zeros((2, int(counts.max()) + 1), np.int64)
        for count in np.flatnonzero(np.bincount(counts)).tolist():  # as np.unique, in a fraction of its time
            known[:, count] = self.reach(count)
        blocks, tiles = known[:, counts]
        return blocks, tiles

    @cached_property
    def _reaches(self) -> dict[int, tuple[int, int]]:
        """What `reach` has found, by count: the candidates of a search ask for few counts, many times."""
        return {}

    @cached_property
    def _extents(self) -> NDArray[np.int64]:
        """The first summed block, the end of the last one, and the weight tiles of each unit [3, unit]."""
        volumes = (sum(map(_volume, pieces)) for pieces in self.pieces)
        ends = ((box[0].start, box[0].stop) for box in self.boxes)
        return np.array([(*end, volume) for end, volume in zip(ends, volumes, strict=True)], np.int64).T

    def bytes(self, units: range, box: Box, element: Element) -> bytes:
        """The tiles of some units in a box that lies in the box of each: for each unit and tap, the tiles of the
        summed blocks, row by row.
        """
        pieces = []
        assert element.type is not None
        for unit in units:
            summed, *taps = (
                slice(r.start - own.start, r.stop - own.start) for r, own in zip(box, self.boxes[unit], strict=True)
            )
            pieces.append(pack_elements(self.tiles[unit][(*taps, summed)], element.type))
        return b"".join(pieces)


def cut_weights(
    values: NDArray[Any], access: Access, trips: Mapping[str, int], lane: str, summed: str, taps: Sequence[str],
    rows: int, cols: int, is_whole: bool = False,
) -> WeightTiles:  # fmt: skip
    """Cut a constant into tiles of `rows` summed channels × `cols` results, zeros where the channels do not fill it.

    Each dimension of the access moves with one loop or with none; one may be a band, `summed - step · lane`, outside
    which the matrix is zero. With `is_whole`, tiles of zeros are kept, because their vectors have other products too.
    Weights that are a sum of terms have the loop over these as their first tap; few of the second term's tiles may
    hold anything.
    """
    has_terms = len(access.index) > DIMENSIONS
    matrix = _Matrix.in_order(values, access, trips, lane, summed, taps)
    sizes = tuple(trips[tap] for tap in taps)
    boxes, pieces, tiles = [], [], []
    at_once = cols * (1 if matrix.band else max(1, AT_ONCE // (cols * prod(sizes) * trips[summed])))
    for first in range(0, trips[lane], at_once):
        channels = range(first, min(first + at_once, trips[lane]))
        reach = matrix.reach(channels)
        near = range(reach.start // rows, -(-reach.stop // rows)) if reach else range(1)
        units = -(-len(channels) // cols)
        full = np.zeros((units * cols, *sizes, len(near) * rows), values.dtype)
        matrix.write(full, channels, near.start * rows)
        in_units = full.reshape(units, cols, *sizes, len(near), rows)
        shaped = np.ascontiguousarray(np.moveaxis(in_units, 1, -1))  # [unit, tap…, summed block, row, column]
        used = (shaped != 0).reshape(*shaped.shape[:-2], rows * cols).any(axis=-1) | is_whole
        for of_unit, is_used in zip(shaped, np.moveaxis(used, -1, 1), strict=True):
            box = _box(is_used)
            summed_box, *tap_boxes = (slice(r.start, r.stop) for r in box)
            tiles.append(np.ascontiguousarray(of_unit[(*tap_boxes, summed_box)]))
            boxes.append(_beyond(box, near.start))
            cut = _pieces_of_terms(is_used, box) if has_terms else _pieces(is_used, box)
            pieces.append(tuple(_beyond(piece, near.start) for piece in cut))
    return WeightTiles(summed, tuple(taps), rows, tuple(boxes), tuple(pieces), tuple(tiles))


def computed_tiles(trips: Mapping[str, int], lane: str, summed: str, rows: int, cols: int) -> WeightTiles:
    """The tiles of a computed matrix: all of them, for nothing is known of their values."""
    units, blocks = -(-trips[lane] // cols), -(-trips[summed] // rows)
    box = (range(blocks),)
    return WeightTiles(summed, (), rows, (box,) * units, ((box,),) * units)


@dataclass(frozen=True)
class _Matrix:
    """A constant with its dimensions in the order result channel, taps, summed channel.

    With a `band` (step, constant) the last dimension is not the summed channel but how far it is beyond step · result
    channel - constant.
    """

    values: NDArray[Any]  # [lane, tap…, summed or width of the band], each dimension 1 where nothing moves it
    summed: int
    band: tuple[int, int] | None

    @staticmethod
    def in_order(
        values: NDArray[Any], access: Access, trips: Mapping[str, int], lane: str, summed: str, taps: Sequence[str]
    ) -> _Matrix:
        loops = [lane, *taps, summed]
        band, dimension = None, {}
        for d, index in enumerate(access.index):
            steps = dict(index.terms)
            if set(steps) == {lane, summed}:
                band, dimension[summed] = (-steps[lane], index.constant), d
            elif index.terms:
                dimension[_loop(index)] = d
        cut = tuple(slice(0, None if len(index.terms) > 1 else trips[_loop(index)]) for index in access.index)
        order = [dimension[loop] for loop in loops if loop in dimension]
        still = [d for d in range(values.ndim) if d not in order]
        array = np.transpose(values[cut], [*still, *order])
        sizes = iter(array.shape[len(still) :])
        return _Matrix(array.reshape([next(sizes) if k in dimension else 1 for k in loops]), trips[summed], band)

    def reach(self, channels: range) -> range:
        """The summed channels that some result channels have weights for."""
        if self.band is None:
            return range(self.summed)
        first, last = (self._first(channel) for channel in (channels.start, channels.stop - 1))
        return range(max(0, first), min(self.summed, last + self.values.shape[-1]))

    def write(self, full: NDArray[Any], channels: range, first: int) -> None:
        """Put the weights of some result channels into [column, tap…, summed channel from `first` on]."""
        if self.band is None:
            rows = self.values if self.values.shape[0] == 1 else self.values[channels.start : channels.stop]
            full[: len(channels), ..., : self.summed] = rows
            return
        for column, channel in enumerate(channels):
            begin = self._first(channel)
            inside = range(max(0, begin), min(self.summed, begin + self.values.shape[-1]))
            row = self.values[channel if self.values.shape[0] > 1 else 0]
            full[column, ..., inside.start - first : inside.stop - first] = row[
                ..., inside.start - begin : inside.stop - begin
            ]

    def _first(self, channel: int) -> int:
        assert self.band is not None
        step, constant = self.band
        return step * channel - constant


def _volume(box: Box) -> int:
    volume = 1
    for extent in box:
        volume *= len(extent)
    return volume


def _box(used: NDArray[np.bool_]) -> Box:
    if used.all():
        return tuple(map(range, used.shape))
    ranges = []
    for axis in range(used.ndim):
        others = tuple(a for a in range(used.ndim) if a != axis)
        found = np.flatnonzero(np.any(used, axis=others))
        ranges.append(range(int(found[0]), int(found[-1]) + 1) if len(found) else range(0, 1))
    return tuple(ranges)


def _pieces(used: NDArray[np.bool_], box: Box) -> tuple[Box, ...]:
    """A box in pieces where its summed blocks use other taps: consecutive ones with the same taps are one piece."""
    if used[tuple(slice(r.start, r.stop) for r in box)].all():
        return (box,)
    pieces: list[Box] = []
    for block in box[0]:
        if not used[block].any():
            continue
        taps = _box(used[block])
        if pieces and pieces[-1][0].stop == block and pieces[-1][1:] == taps:
            pieces[-1] = (range(pieces[-1][0].start, block + 1), *taps)
        else:
            pieces.append((range(block, block + 1), *taps))
    return tuple(pieces) if 0 < sum(map(_volume, pieces)) < _volume(box) else (box,)


def _pieces_of_terms(used: NDArray[np.bool_], box: Box) -> tuple[Box, ...]:
    """A box in pieces for each term, whose first tap it is: each summed block has the taps that this term uses."""
    pieces: list[Box] = []
    for term in box[1]:
        of_term = used[:, term : term + 1]
        if of_term.any():
            cut = _pieces(of_term, _box(of_term))
            pieces += ((summed, range(term, term + 1), *taps) for summed, _, *taps in cut)
    return tuple(pieces) if 0 < sum(map(_volume, pieces)) < _volume(box) else (box,)


def _beyond(box: Box, blocks: int) -> Box:
    """A box so many summed blocks further on."""
    return range(box[0].start + blocks, box[0].stop + blocks), *box[1:]


def _loop(index: Affine) -> str:
    return index.terms[0][0] if index.terms else ""
