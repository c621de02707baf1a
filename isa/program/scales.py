"""Scales and zero points of a tensor that has more than one: for each channel, or for blocks along a dimension.

Example: [2, 3, 8, 8] with a scale for each index of dimension 1 is three boxes [2, 1, 8, 8]; [3, 5] in blocks of two
along dimension 1 is nine boxes [1, 2], of which the last of each row holds one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError


@dataclass(frozen=True, slots=True)
class Scales:
    """real = scale · (q - zero_point), one of each for every box of a tensor; boxes are counted in C order."""

    box: tuple[int, ...]  # elements along each dimension
    values: tuple[float, ...]
    zero_points: tuple[int, ...]

    def require_fit(self, shape: Sequence[int]) -> None:
        """Raise IsaError unless there is a scale and a zero point for each box of a tensor of this shape."""
        boxes = prod(self._counts(shape)) if len(self.box) == len(shape) else 0  # none fit
        if not len(self.values) == len(self.zero_points) == boxes or min(self.box, default=1) < 1:
            raise IsaError(
                f"boxes {list(self.box)} of {list(shape)}: expected as many dimensions, and a scale and a zero point "
                f"for each of {boxes} boxes, got {len(self.values)} and {len(self.zero_points)}"
            )

    def spread(self, shape: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scale and zero point of each element, as arrays that broadcast against a tensor of this shape."""
        scales, zeros = np.array(self.values, np.float32), np.array(self.zero_points, np.int64)
        return self._spread(scales, shape), self._spread(zeros, shape)

    def _spread(self, by_box: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        counts = self._counts(shape)
        spread = by_box.reshape(counts)
        for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
            if count > 1:
                spread = spread.repeat(self.box[axis], axis).take(range(size), axis)
        return spread

    def _counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many boxes lie along each dimension."""
        return tuple(max(1, -(-size // max(1, edge))) for size, edge in zip(shape, self.box, strict=True))
