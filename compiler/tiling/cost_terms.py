"""What the analytic model of a nest's cycles rests on: how many tiles there are, and what is around the nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.tiling.shape import NestShape, Sizes, extents, reach
from tilewright.isa.machine.machine import Machine


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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a nest costs or saves besides its own work, by what is computed before, beside and after it.

    `tile_cycles`: of each tile, because its instructions start one after the other. `traffic`: of a cycle of loading
    that other engines hide. `exposed_weights`: the share of the time for loading the first weights that no nest before
    hides. `is_beside`: whether others wait for the first tile of a nest without products. `is_uneven`: whether
    tiles at the ends of loops, where they are smaller or reach beyond a tensor, load less: nests that run beside each
    other get along better with even ones. `most_arrays`: so many arrays share its tiles at the most; None: all.
    """

    tile_cycles: float
    traffic: float
    exposed_weights: float
    is_beside: bool
    is_uneven: bool
    most_arrays: int | None = None

    def arrays(self, machine: Machine) -> int:
        """How many arrays compute tiles of a nest."""
        return 1 + len(machine.first_twins(self.most_arrays))


IN_A_NETWORK = Surroundings(tile_cycles=7.5, traffic=0.05, exposed_weights=0.5, is_beside=True, is_uneven=False)
"""Tiles are chosen with these: others use the bus as well, and of two equal tilings the one that loads less wins."""

ALONE = Surroundings(tile_cycles=0, traffic=0, exposed_weights=1, is_beside=False, is_uneven=True)
"""Nothing is before, beside or after: what the model expects can be compared with the exact one."""
