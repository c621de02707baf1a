"""How many tiles a nest is cut into, for all candidates at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.tiling.shape import NestShape, Sizes, extents, reach


@dataclass(frozen=True)
class TileCounts:
    """How many tiles there are: over the pixels, over the channels of the result, and partial sums of each."""

    extent: Mapping[str, int]
    points: Sizes
    lanes: Sizes
    partial_sums: Sizes
    along: Mapping[str, Sizes]  # by loop

    @cached_property
    def results(self) -> Sizes:
        return self.points * self.lanes

    @cached_property
    def all(self) -> Sizes:
        return self.points * self.lanes * self.partial_sums


def tile_counts(shape: NestShape, sizes: Mapping[str, Sizes]) -> TileCounts:
    space, extent = shape.cover.space, extents(shape)
    counts = {loop: -(-extent[loop] // sizes[loop]) for loop in sizes}
    lanes = counts[space.lane]
    partial_sums = np.ones_like(lanes)
    if shape.weights is not None and shape.summed != NO_LOOP:
        whole = {**sizes, shape.summed: np.full_like(lanes, extent[shape.summed])}
        partial_sums = -(-reach(shape, whole)[0] // sizes[shape.summed])
    for tap in shape.taps:
        partial_sums = partial_sums * counts[tap]
    return TileCounts(
        extent, counts[space.batch] * counts[space.row] * counts[space.column], lanes, partial_sums, counts
    )


def tiles_of_points(shape: NestShape, count: TileCounts, sizes: Mapping[str, Sizes]) -> Iterator[tuple[Sizes, Sizes]]:
    """How many tiles have how many pixels: those that are whole, and those at the end of each loop."""
    space = shape.cover.space
    kinds = []
    for loop in space.points:
        whole, left = np.divmod(count.extent[loop], sizes[loop])
        kinds.append([(whole, sizes[loop]), (np.minimum(left, 1), left)])
    for (batches, batch), (rows, row), (columns, column) in product(*kinds):
        yield batches * rows * columns, batch * row * column
