"""The sums of a product's vectors times numbers, computed once for each pixel of the input and added up over windows.

`compiler/select/window_sums.py` says when. Example, 3×3: a tile of 7×5 results reads 9×7 pixels. The array sums the
channels of these into 9×7 words; three words of each row are added into 9×5, three words of each column into 7×5. These
are the same for all lane blocks of the result, and are added to each.

All of these words lie in one buffer with the tile's results, and so in one bank, which the array leaves alone while it
computes the next tile in another. In the bank that it adds to, additions would wait until it has done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.nest.space import coefficient
from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.window_sums import window_loop
from tilewright.compiler.tile.program import BufferAddress, TileOperation
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.job import NestJob, Ranges, at, span
from tilewright.compiler.tiling.layout import Layout, box_layout
from tilewright.compiler.tiling.pack_loops import WordLoop, affine_runs
from tilewright.compiler.tiling.shape import AREAS_OF_PARTIAL_SUMS, extents
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights


@dataclass(frozen=True, slots=True)
class Plane:
    """A word for each pixel of a box: where the first lies, and the strides over batches, rows and columns."""

    buffer: str
    first: int
    strides: tuple[int, int, int]

    def moved(self, words: int) -> Plane:
        return replace(self, first=self.first + words)

    @property
    def address(self) -> BufferAddress:
        return BufferAddress(self.buffer, self.first)


class WindowSums:
    """Lowers the sums of one nest. It remembers those of the last pixels, which all channels of the result share."""

    def __init__(
        self, job: NestJob, dot: Step, adding: InstructionFormat, access: Access, builder: TileBuilder
    ) -> None:
        self._job = job
        self._dot = dot.format
        self._immediates = dot.immediates
        self._adding = adding
        self._access = access
        self._builder = builder
        self._space = job.cover.space
        self._points: tuple[range, ...] = ()
        self._buffer = ""
        self._free: deque[tuple[int, int]] = deque()  # the first words of sums of pixels, and along rows; in turns
        self._of_windows: int | None = None  # the first word of sums of windows, if they have words of their own
        self._total: Plane | None = None
        self._is_own = False  # whether the total lies in words of its own, which may be added to

    def words(self, tile: Ranges) -> int:
        """The words that a tile's sums take behind its results; 0 if the tile before had the same pixels."""
        of_pixels, along, of_windows = self._sizes(tile)
        return 0 if self._are_there(tile) else self._areas * (of_pixels + along) + of_windows

    def begin(self, tile: Ranges, buffer: str, first: int) -> bool:
        """Take words of a buffer from `first` on for a tile's sums; False if they are there already."""
        if self._are_there(tile):
            return False
        of_pixels, along, _ = self._sizes(tile)
        self._buffer = buffer
        areas = range(first, first + self._areas * (of_pixels + along), of_pixels + along)
        self._free = deque((area, area + of_pixels) for area in areas)
        self._of_windows = areas.stop if self._is_cut else None
        self._points, self._total, self._is_own = self._points_of(tile), None, False
        return True

    def _are_there(self, tile: Ranges) -> bool:
        return self._points_of(tile) == self._points

    def _points_of(self, tile: Ranges) -> tuple[range, ...]:
        return tuple(tile[loop] for loop in self._space.points)

    @property
    def _is_cut(self) -> bool:
        """Whether a tile has several partial sums."""
        extent = extents(self._job.shape)
        return any(self._job.choice.sizes[loop] < extent[loop] for loop in self._space.reduce)

    @property
    def _areas(self) -> int:
        return AREAS_OF_PARTIAL_SUMS if self._is_cut else 1

    def _sizes(self, tile: Ranges) -> tuple[int, int, int]:
        """The words of a tile's sums: of the pixels that a partial sum reads, along rows, and of windows."""
        widest = {**tile, **{loop: range(self._job.choice.sizes[loop]) for loop in self._space.reduce}}
        batch, rows, columns = (len(span(self._access.index[d], widest)) for d in (BATCH, ROW, COLUMN))
        along = batch * rows * len(tile[self._space.column])
        of_windows = prod(map(len, self._points_of(tile))) if self._is_cut else 0
        return self._dot.destination.block * batch * rows * columns, along, of_windows

    def compute(
        self, tile: Ranges, vectors: tuple[str, Layout], summed: range, numbers: Sequence[BufferAddress],
        products: list[TileOperation], rest: list[TileOperation],
    ) -> None:  # fmt: skip
        """Add the sums over a tile's taps of these vectors; the operations go to `products` and `rest`.

        `numbers` are weight tiles of a number each, for each of the summed vectors.
        """
        batch, rows, columns = (span(self._access.index[d], tile) for d in (BATCH, ROW, COLUMN))
        self._builder.sink = products
        of_pixels, of_rows = self._free[0]
        self._free.rotate(-1)
        sums = self._channel_sums(of_pixels, (batch, rows, columns), vectors, summed, numbers)
        self._builder.sink = rest
        space, across, down = self._space, self._access.index[COLUMN], self._access.index[ROW]
        batch_stride, row_stride, column_stride = sums.strides
        moves = (batch_stride, row_stride, column_stride * coefficient(across, space.column))
        tap = window_loop(across, space.column)
        starts = {loop: r.start for loop, r in tile.items()}
        taps = [
            replace(sums.moved((at(across, {**starts, tap: t}) - columns.start) * column_stride), strides=moves)
            for t in tile[tap]
        ]
        along, is_apart = self._added(taps, None, False, (batch, rows, tile[space.column]), of_rows)
        first = of_pixels if is_apart else of_rows  # of what is not read any more
        moves = (along.strides[0], along.strides[1] * coefficient(down, space.row), along.strides[2])
        tap = window_loop(down, space.row)
        taps = [
            replace(along.moved((at(down, {**starts, tap: t}) - rows.start) * along.strides[1]), strides=moves)
            for t in tile[tap]
        ]
        first = first if self._of_windows is None else self._of_windows
        self._total, self._is_own = self._added(taps, self._total, self._is_own, self._points, first)

    def add_to(self, blocks: range, result: tuple[str, Layout], rest: list[TileOperation]) -> None:
        """Add the sums to all lane blocks of a tile's results."""
        assert self._total is not None
        buffer, layout = result
        batch, row, column = (points.start for points in self._points)
        strides = (layout.batch_stride, layout.row_stride, layout.column_stride)
        self._builder.sink = rest
        words = [(layout.address(batch, block, row, column),) for block in blocks]
        for (first,), over_blocks in affine_runs(words):
            target = Plane(buffer, first, strides)
            outer = [(loop.trip, 0, loop.strides[0]) for loop in over_blocks]
            self._add(target, self._total, target, self._points, outer)

    def _channel_sums(
        self, into: int, box: tuple[range, range, range], vectors: tuple[str, Layout], summed: range,
        numbers: Sequence[BufferAddress],
    ) -> Plane:  # fmt: skip
        """The sums over the channels of each pixel of a box, times the numbers; in words from `into` on."""
        batch, rows, columns = box
        held, source = vectors
        block, weights, c = self._dot.destination.block, self._job.shape.weights, self._dot.destination.name
        assert weights is not None
        target = box_layout(block, batch, range(block), rows, columns)
        a, w = systolic_activations(self._dot).name, systolic_weights(self._dot).name
        shift = self._access.index[1].constant // self._job.shape.lanes
        first = source.address(batch.start, summed.start * self._job.shape.group + shift, rows.start, columns.start)
        loops = [
            _loop(self._dot, len(summed), {a: source.group_stride, w: weights.rows}, is_reduce=True),
            *(
                _loop(self._dot, len(indices), {a: there, c: here})
                for indices, there, here in zip(
                    box,
                    (source.batch_stride, source.row_stride, source.column_stride),
                    (target.batch_stride, target.row_stride, target.column_stride),
                    strict=True,
                )
            ),
        ]
        for position, number in enumerate(numbers):
            bases = {a: BufferAddress(held, first), w: number, c: BufferAddress(self._buffer, into)}
            self._builder.operation(self._dot, bases, loops, self._immediates, position > 0)
        return Plane(self._buffer, into, (target.batch_stride, target.row_stride, target.column_stride))

    def _added(
        self, planes: Iterable[Plane], total: Plane | None, is_own: bool, box: tuple[range, ...], first: int
    ) -> tuple[Plane, bool]:
        """The sum of planes and of a total over a box, and whether it lies in words of its own: from `first` on."""
        for plane in planes:
            if total is None:
                total = plane
                continue
            batch, rows, columns = box
            layout = box_layout(1, batch, range(1), rows, columns)
            strides = (layout.batch_stride, layout.row_stride, layout.column_stride)
            into = total if is_own else Plane(self._buffer, first, strides)
            self._add(total, plane, into, box)
            total, is_own = into, True
        assert total is not None
        return total, is_own

    def _add(
        self, a: Plane, b: Plane, into: Plane, box: tuple[range, ...], outer: Sequence[tuple[int, int, int]] = ()
    ) -> None:
        """Add for each word of a box. `outer` are loops around it: trip, stride of b, stride of a and of the result."""
        format = self._adding
        one, other = (operand.name for operand in format.sources)
        result = format.destination.name
        loops = [_loop(format, trip, {one: of_a, other: of_b, result: of_a}) for trip, of_b, of_a in outer]
        loops += [
            _loop(format, len(r), {one: a.strides[d], other: b.strides[d], result: into.strides[d]})
            for d, r in enumerate(box)
        ]
        self._builder.operation(format, {one: a.address, other: b.address, result: into.address}, loops)


def _loop(format: InstructionFormat, trip: int, strides: Mapping[str, int], is_reduce: bool = False) -> WordLoop:
    return WordLoop(trip, tuple(strides.get(operand.name, 0) for operand in format.operands), is_reduce)
