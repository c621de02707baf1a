"""A nest with all decisions made, ready to be lowered; and the arithmetic of its accesses and tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine
from tilewright.compiler.nest.space import NO_LOOP, NestSpace
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.tiling.builder import Fill
from tilewright.compiler.tiling.choice import TileChoice
from tilewright.compiler.tiling.layout import DramLayout, InDram, Layout
from tilewright.compiler.tiling.pack_loops import WordLoop
from tilewright.compiler.tiling.shape import NestShape, Within

Ranges = Mapping[str, range]
"""A tile: for each loop its iterations; of the lane loop, its lane blocks; of the summed loop, its vectors."""

Constants = Mapping[str, NDArray[Any]]
"""The constants of a program, by tensor."""

IN_GROUP = "in group"
"""The loop over the lane blocks that lie together on chip, inside the loop over such groups."""


@dataclass(frozen=True)
class WholeTensor:
    """A tensor that is completely on chip."""

    buffer: str
    layout: Layout


@dataclass(frozen=True)
class NestJob:
    """A nest with all decisions made: what computes it, in which tiles, where its tensors are."""

    shape: NestShape
    choice: TileChoice
    homes: Mapping[str, WholeTensor | InDram]  # by tensor, of everything that it reads
    result: WholeTensor | None  # where its result stays on chip
    result_in_dram: InDram | None  # where its result is stored
    fills: Mapping[int, Fill]  # by value of elements outside
    within: tuple[tuple[Within, NestJob], ...] = ()  # nests whose tiles are computed in those of this one

    @property
    def cover(self) -> Cover:
        return self.shape.cover

    def blocks(self, tile: Ranges) -> range:
        """The lane blocks of the result that a tile computes."""
        space, unit = self.cover.space, self.shape.unit
        units, channels = tile[space.lane], space.trips[space.lane]
        return range(units.start * unit, min(units.stop * unit, -(-channels // self.shape.lanes)))


Content = Callable[[NestJob, Constants], bytes]
"""The bytes of a constant that a nest reads; also of nests that are alike, from their own constants."""


@dataclass(frozen=True)
class OperandView:
    """The words that an operand reads or writes in a tile: an offset for each lane block, a stride for each loop."""

    buffer: str
    offsets: tuple[int, ...]
    strides: Mapping[str, int]


def loop_strides(space: NestSpace, layout: Layout) -> dict[str, int]:
    """Strides of the loops over points, in a tile whose layout follows these loops."""
    strides = {space.batch: layout.batch_stride, space.row: layout.row_stride, space.column: layout.column_stride}
    strides.pop(NO_LOOP, None)
    return strides


def access_strides(access: Access, layout: Layout | DramLayout) -> dict[str, int]:
    """Stride of every loop that moves an access over batches, rows and columns."""
    strides: dict[str, int] = {}
    for dimension, step in ((BATCH, layout.batch_stride), (ROW, layout.row_stride), (COLUMN, layout.column_stride)):
        for loop, by in access.index[dimension].terms:
            strides[loop] = strides.get(loop, 0) + by * step
    return strides


def word_loop(
    step: Step, trip: int, loop: str, strides: Mapping[str, Mapping[str, int]], is_reduce: bool = False
) -> WordLoop:
    """A loop of a nest as a loop of its instruction, with each operand's stride."""
    moves = tuple([strides[operand.name].get(loop, 0) for operand in step.format.operands])
    return WordLoop(trip, moves, is_reduce)


def cut(extent: int, size: int) -> list[range]:
    """An extent cut into pieces of one size; the last may be smaller."""
    return [range(start, min(start + size, extent)) for start in range(0, extent, size)]


def common(a: range, b: range) -> range:
    """The intersection of two ranges."""
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    return range(start, max(start, stop))


def at(index: Affine, starts: Mapping[str, int]) -> int:
    """The value of an index, given the value of every loop."""
    total = index.constant
    for loop, by in index.terms:
        total += by * starts[loop]
    return total


def pixel_at(access: Access, starts: Mapping[str, int]) -> tuple[int, int, int]:
    """Batch, row and column of an access, given the value of every loop."""
    return at(access.index[BATCH], starts), at(access.index[ROW], starts), at(access.index[COLUMN], starts)


def span(index: Affine, tile: Ranges) -> range:
    """All indices from the smallest to the largest that a tile reads."""
    first = last = index.constant
    for loop, by in index.terms:
        one, other = by * tile[loop].start, by * (tile[loop].stop - 1)
        first, last = first + min(one, other), last + max(one, other)
    return range(first, last + 1)
