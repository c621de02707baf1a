"""A covered nest as the tiler needs it: how far its loops go, and what tiles of given sizes read and write.

Sizes are arrays with one entry for each candidate tile, so that all candidates are costed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.bindings import POINTS, Binding, Parameters, TableBinding, TensorRead
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.tiling.layout import Border
from tilewright.compiler.tiling.weight_tiles import WeightTiles
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.templates.systolic import systolic_activations

Sizes = NDArray[np.int64]
Cycles = NDArray[np.float64]
Flags = NDArray[np.bool_]

Blocks = TypeVar("Blocks", int, Sizes)
"""One entry for each candidate."""


@dataclass(frozen=True)
class NestShape:
    """A covered nest as the tiler sees it. `unit` is the number of lane blocks that results are computed in."""

    cover: Cover
    lanes: int
    unit: int
    summed: str  # the reduce loop over channels; NO_LOOP without one
    summed_step: int  # channels in a vector
    taps: tuple[str, ...]  # reduce loops that a tile may cut
    group: int  # lane blocks that lie together on chip
    weights: WeightTiles | None  # of a product
    choosing: frozenset[str]  # loops over points that choose among matrices: a tile has one iteration of each
    off_chip: frozenset[str]  # reads that come from DRAM
    stores_result: bool  # the result leaves for DRAM
    result_on_chip: bool  # the result's buffer is a whole tensor on chip
    pixel_blocks: Mapping[tuple[int, str], int]  # lane blocks that differ, of parameters of pixels, by step and operand
    borders: Mapping[str, Border]  # by read, how far the whole nest reads beyond the tensor's bounds
    within: tuple[Within, ...] = ()  # nests whose results this one takes from accumulators

    @property
    def reads_within(self) -> frozenset[str]:
        """The reads of what is computed within this nest."""
        return frozenset(within.read for within in self.within)


@dataclass(frozen=True)
class Within:
    """A nest that is computed tile by tile within the one that reads it, by the read of that name."""

    position: int
    read: str
    shape: NestShape
    weight_words: int  # at most so many words of weights are loaded for one partial sum, if a vector of channels allows

    def sizes(self, reader: NestShape, sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
        """The sizes of its tiles, given those of its reader's: what these read; channels are summed in even pieces."""
        space, weights = self.shape.cover.space, self.shape.weights
        assert weights is not None
        access, extent = reader.cover.nest.reads[self.read], extents(self.shape)
        own = {loop: np.full_like(sizes[NO_LOOP], extent[loop]) for loop in space.reduce}
        own |= dict(zip(space.points, box_pixels(access, sizes), strict=True))
        own[space.lane] = sizes[reader.cover.space.lane]
        own[NO_LOOP] = np.ones_like(sizes[NO_LOOP])
        if self.shape.summed != NO_LOOP:
            of_a_vector = own[space.lane] * weights.rows * prod(extent[tap] for tap in self.shape.taps)
            pieces = -(-extent[self.shape.summed] // np.maximum(1, self.weight_words // of_a_vector))
            own[self.shape.summed] = -(-extent[self.shape.summed] // pieces)
        return own


def extents(shape: NestShape) -> dict[str, int]:
    """How far each loop goes, counted as tiles are: units, vectors, or iterations."""
    space = shape.cover.space
    extent = dict(space.trips)
    extent[space.lane] = -(-space.trips[space.lane] // (shape.unit * shape.lanes))
    if shape.summed != NO_LOOP:
        extent[shape.summed] = -(-space.trips[shape.summed] // shape.summed_step)
    if space.across != NO_LOOP:
        extent[space.across] = space.trips[space.across] // shape.lanes
    extent[NO_LOOP] = 1
    return extent


# -- weights -----------------------------------------------------------------------------------------------------------


def reach(shape: NestShape, sizes: Mapping[str, Sizes]) -> tuple[Sizes, Sizes]:
    """How many vectors of summed channels, and how many weight tiles, one partial sum of a tile reads."""
    assert shape.weights is not None
    units = sizes[shape.cover.space.lane]
    across, tiles = shape.weights.reaches(units)
    across = np.minimum(sizes[shape.summed], across) if shape.summed != NO_LOOP else across
    every = units * across
    for tap in shape.taps:
        every = every * sizes[tap]
    return across, np.minimum(every, tiles)


def all_weight_tiles(shape: NestShape) -> int:
    """Weight tiles of the whole nest, without those of zeros."""
    assert shape.weights is not None
    return shape.weights.reach(shape.weights.units)[1]


def vector_access(shape: NestShape, dot: Step) -> Access:
    """The read of a product's vectors."""
    bound = dot.inputs[systolic_activations(dot.format).name]
    assert isinstance(bound, TensorRead)
    return shape.cover.nest.reads[bound.read]


AREAS_OF_PARTIAL_SUMS = 3
"""Where a tile has several partial sums, what it sums apart lies in so many places: that of the partial sum before, of
this one, and of the next."""


def is_cut(shape: NestShape, sizes: Mapping[str, Sizes]) -> Sizes:
    """Whether a tile has several partial sums."""
    extent, cut = extents(shape), np.zeros_like(sizes[NO_LOOP])
    for loop in shape.cover.space.reduce:
        cut = cut | (sizes[loop] < extent[loop])
    return cut


# -- tensors and tables ------------------------------------------------------------------------------------------------


def is_brought_already(shape: NestShape, index: int, operand: Operand) -> bool:
    """Whether an earlier step of a nest across lanes has brought the words of an operand already."""
    steps = shape.cover.steps
    is_across, bound = operand.name in steps[index].across, steps[index].inputs[operand.name]
    if shape.cover.space.across == NO_LOOP:
        return False
    return any(
        _is_same_tensor(shape, source, bound)
        or (source == bound and (isinstance(bound, TableBinding) or (name in earlier.across) == is_across))
        for earlier in steps[:index]
        for name, source in earlier.inputs.items()
    )


def _is_same_tensor(shape: NestShape, one: Binding, other: Binding) -> bool:
    """Whether two reads take the same pixels of a tensor; all channels are there, whichever loop walks over them."""
    if not isinstance(one, TensorRead) or not isinstance(other, TensorRead):
        return False
    a, b = (shape.cover.nest.reads[each.read] for each in (one, other))
    return a.tensor == b.tensor and all(a.index[d] == b.index[d] for d in (BATCH, ROW, COLUMN))


def tables(shape: NestShape, read: str, blocks: Blocks) -> Blocks | int:
    """How many tables some lane blocks look up in: one for all, or one for each."""
    return blocks if any(index.terms for index in shape.cover.nest.reads[read].index) else 1


def words_of_pixels(shape: NestShape, index: int, operand: Operand, sizes: Mapping[str, Sizes]) -> Sizes | None:
    """At most so many words has a tile of an operand's parameters; None if these are the same for all pixels."""
    bound, space = shape.cover.steps[index].inputs[operand.name], shape.cover.space
    if (index, operand.name) not in shape.pixel_blocks or not isinstance(bound, Parameters):
        return None
    moved = bound.points(shape.cover.nest.reads)
    words = np.minimum(sizes[space.lane] * shape.unit, shape.pixel_blocks[index, operand.name])
    for dimension, loop in zip(POINTS, space.points, strict=True):
        words = words * (sizes[loop] if dimension in moved else 1)
    return words


@dataclass(frozen=True)
class Box:
    """The box that one tile reads of a tensor: words of so many lane blocks, images, rows and columns."""

    blocks: NDArray[Any]
    images: NDArray[Any]
    rows: NDArray[Any]
    columns: NDArray[Any]
    has_whole_rows: Flags  # all columns of the tensor
    has_whole_planes: Flags  # all its rows as well

    @property
    def words(self) -> NDArray[Any]:
        return self.blocks * self.images * self.rows * self.columns

    @property
    def runs(self) -> NDArray[Any]:
        """Runs of consecutive words in DRAM: rows, planes if rows are whole, or images if planes are whole."""
        planes = np.where(self.has_whole_planes, 1, self.blocks)
        return self.images * np.where(self.has_whole_rows, planes, self.blocks * self.rows)


def box_read(shape: NestShape, step: Step, read: str, sizes: Mapping[str, NDArray[Any]]) -> Box:
    """The box that one tile reads of a tensor, with what is beyond the tensor's bounds."""
    access, extent = shape.cover.nest.reads[read], extents(shape)
    columns, rows = (
        np.logical_and.reduce([sizes[loop] == extent[loop] for loop, _ in access.index[dimension].terms] or [True])
        for dimension in (COLUMN, ROW)
    )
    return Box(_box_blocks(shape, step, read, sizes), *box_pixels(access, sizes), columns, columns & rows)


def _box_blocks(shape: NestShape, step: Step, read: str, sizes: Mapping[str, Sizes]) -> Sizes:
    """Lane blocks of the box that one tile reads of a tensor, in whole groups."""
    access = shape.cover.nest.reads[read]
    across = shape.cover.space.across
    if step.is_dot:
        blocks = reach(shape, sizes)[0] * shape.group
    elif access.index[CHANNEL].terms and access.index[CHANNEL].terms[0][0] == across:
        blocks = sizes[across]
    else:
        blocks = sizes[shape.cover.space.lane] * shape.unit
    return in_groups(np.asarray(blocks), shape.group)


def box_pixels(access: Access, sizes: Mapping[str, Sizes]) -> tuple[Sizes, Sizes, Sizes]:
    """The batches, rows and columns of the box that one tile reads of a tensor."""
    batch, row, column = (_box_extent(access, dimension, sizes) for dimension in (BATCH, ROW, COLUMN))
    return batch, row, column


def in_groups(blocks: Sizes, group: int) -> Sizes:
    """A number of lane blocks rounded up to whole groups."""
    return -(-blocks // group) * group


def _box_extent(access: Access, dimension: int, sizes: Mapping[str, Sizes]) -> Sizes:
    """How many indices of a dimension a tile reads, from the first to the last."""
    one: Sizes = np.asarray(1)
    for loop, by in access.index[dimension].terms:
        one = one + abs(by) * (sizes[loop] - 1)
    return one
