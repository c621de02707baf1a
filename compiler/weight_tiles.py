"""Constants as the machine reads them: matrices cut into array tiles, parameters packed lane by lane, tensors in words.

Example, a 16×16 array and weights [O=20, I=8, R=3, S=3]: 2 units of 16 outputs, 1 block of 16 inputs, so `tiles` is
[2, 3, 3, 1, 16, 16]; rows 8 to 15 are zero, and of unit 1 so are columns 4 to 15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from compiler.layout import DramLayout
from compiler.nest import Access
from isa.memory import Element

Box = tuple[range, ...]
"""Ranges of the summed block and of each tap."""


@dataclass(frozen=True)
class WeightTiles:
    """A constant matrix as tiles [unit, tap…, summed block, row, column]; `taps` names the loops of the taps."""

    summed: str
    taps: tuple[str, ...]
    tiles: NDArray[np.int64]

    @property
    def units(self) -> int:
        return int(self.tiles.shape[0])

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """For each unit the smallest box (summed blocks, then taps) outside which its weights are zero; never empty."""
        is_used = np.any(self.tiles != 0, axis=(-2, -1))
        return tuple(_box(np.moveaxis(used, -1, 0)) for used in is_used)

    def hull(self, units: range) -> Box:
        """The smallest box that holds the boxes of some units."""
        boxes = [self.boxes[unit] for unit in units]
        return tuple(
            range(min(box[axis].start for box in boxes), max(box[axis].stop for box in boxes))
            for axis in range(len(self.taps) + 1)
        )

    def bytes(self, units: range, box: Box, element: Element) -> bytes:
        """The tiles of some units in a box: for each unit and tap, the tiles of the summed blocks, row by row."""
        summed, *taps = (slice(r.start, r.stop) for r in box)
        piece = self.tiles[(slice(units.start, units.stop), *taps, summed)]
        return piece.astype(f"<i{element.bytes}").tobytes()


def _box(used: NDArray[np.bool_]) -> Box:
    ranges = []
    for axis in range(used.ndim):
        others = tuple(a for a in range(used.ndim) if a != axis)
        found = np.flatnonzero(np.any(used, axis=others))
        ranges.append(range(int(found[0]), int(found[-1]) + 1) if len(found) else range(0, 1))
    return tuple(ranges)


def cut_weights(
    values: NDArray[np.int64], access: Access, trips: Mapping[str, int], lane: str, summed: str, taps: Sequence[str],
    rows: int, cols: int,
) -> WeightTiles:  # fmt: skip
    """Cut a constant into tiles of `rows` summed channels × `cols` results, zeros where the channels do not fill it."""
    dimension = {index.terms[0][0]: d for d, index in enumerate(access.index) if index.terms}
    loops = [lane, *taps, summed]
    array = values[tuple(slice(0, trips[_loop(index)]) for index in access.index)]
    order = [dimension[loop] for loop in loops if loop in dimension]
    still = [d for d in range(array.ndim) if d not in order]
    array = np.transpose(array, [*still, *order]).reshape([trips[k] if k in dimension else 1 for k in loops])
    array = np.broadcast_to(array, [trips[loop] for loop in loops])
    units, blocks = -(-trips[lane] // cols), -(-trips[summed] // rows)
    full = np.zeros((units * cols, *array.shape[1:-1], blocks * rows), np.int64)
    full[: trips[lane], ..., : trips[summed]] = array
    shaped = full.reshape(units, cols, *array.shape[1:-1], blocks, rows)
    return WeightTiles(summed, tuple(taps), np.ascontiguousarray(np.moveaxis(shaped, 1, -1)))


def _loop(index: object) -> str:
    terms = getattr(index, "terms", ())
    return str(terms[0][0]) if terms else ""


def pack_parameters(element: Element, width: int, blocks: int, values: Mapping[str, NDArray[np.int64]]) -> bytes:
    """Words of a structured element, one for each lane block; `values` holds each field's value by channel.

    Lanes beyond the channels hold zeros.
    """
    count = blocks * width
    packed = [0] * count
    for field in element.fields:
        mask = (1 << field.type.bits) - 1
        for channel, value in enumerate(values[field.name].tolist()[:count]):
            packed[channel] |= (value & mask) << field.low_bit
    return b"".join(value.to_bytes(element.bytes, "little") for value in packed)


def pack_tensor(values: NDArray[np.int64], layout: DramLayout) -> bytes:
    """A constant tensor [N, C, H, W] as words in DRAM; channels that do not exist are zero."""
    batches, channels, height, width = values.shape
    full = np.zeros((batches, layout.blocks * layout.lanes, height, width), np.int64)
    full[:, :channels] = values
    words = full.reshape(batches, layout.blocks, layout.lanes, height, width).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(words).astype(f"<i{layout.word_bytes // layout.lanes}").tobytes()
