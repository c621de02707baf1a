"""A matrix product of a nest on tiles: the partial sums of each tile, and what each of them loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from math import prod

import numpy as np

from tilewright.compiler.graph.graph import CHANNEL, ROW
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.nest.space import NO_LOOP, Correction, choosing_loops, pixel_dimension
from tilewright.compiler.select.bindings import ComputedMatrix, TensorRead
from tilewright.compiler.select.cover import Step
from tilewright.compiler.tile.program import BufferAddress
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.constants import pack_integers
from tilewright.compiler.tiling.job import (
    Constants,
    NestJob,
    Ranges,
    access_strides,
    common,
    cut,
    loop_strides,
    pixel_at,
    word_loop,
)
from tilewright.compiler.tiling.layout import InDram, Layout
from tilewright.compiler.tiling.on_chip import OnChip
from tilewright.compiler.tiling.runs import WordRun, in_tiles, runs
from tilewright.compiler.tiling.stage import Stage
from tilewright.compiler.tiling.weight_tiles import Box, WeightTiles
from tilewright.compiler.tiling.window_sums import WindowSums
from tilewright.isa.machine.memory import BYTE_BITS
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights

WEIGHTS_SLOT = "weights"

_Walk = tuple[BufferAddress, dict[str, int]]
"""The first address of an operand, and its strides over the nest's loops."""


class DotLowering:
    """Lowers the step of a nest that multiplies vectors by weights, constant or computed."""

    def __init__(self, job: NestJob, dot: Step, weights: WeightTiles, chip: OnChip, builder: TileBuilder) -> None:
        self._job = job
        self._dot = dot
        self._weights = weights
        self._chip = chip
        self._builder = builder
        self._nest, self._space = job.cover.nest, job.cover.space
        self._vector, self._matrix = systolic_activations(dot.format), systolic_weights(dot.format)
        self._stage = Stage()
        self._apart: WindowSums | None = None
        if dot.adding is not None:
            self._apart = WindowSums(job, dot, dot.adding, self._read_of_vectors(), builder)

    def stages(self, tile: Ranges, result: tuple[str, Layout]) -> Iterator[Stage]:
        """A tile's partial sums, which go into the result's buffer; the last stage may take what follows."""
        groups = _groups(self._weights, tile[self._space.lane])
        begun: set[range] = set()
        sums_are_missing = self._apart is not None and self._apart.begin(tile, result[0], result[1].words)
        partial_sums = self._partial_sums(tile[self._space.lane], groups)
        for terms in partial_sums:
            self._stage = Stage()
            cut_tile = {**tile, **terms}
            inside = [
                (group, tuple(map(common, box, self._box(terms)))) for group, box in groups if self._is_in(box, terms)
            ]
            tiles = self._load_tiles(cut_tile, inside)
            if sums_are_missing:
                self._sums_of_numbers(cut_tile)
            for (group, box), weights in zip(inside, tiles, strict=True):
                self._operations(cut_tile, group, box, weights, result, group in begun)
                begun.add(group)
            if self._apart is not None and terms is partial_sums[-1]:
                self._apart.add_to(self._blocks(tile[self._space.lane]), result, self._stage.rest)
            yield self._stage

    def _blocks(self, units: range) -> range:
        """The lane blocks of some units that hold channels of the result."""
        blocks = -(-self._space.trips[self._space.lane] // self._job.shape.lanes)
        return range(units.start * self._job.shape.unit, min(units.stop * self._job.shape.unit, blocks))

    def _sums_of_numbers(self, tile: Ranges) -> None:
        """The products with numbers of a partial sum's vectors, apart from the product itself."""
        assert self._apart is not None
        summed = tile[self._weights.summed]
        numbers = [self._number_tiles(correction.number, summed) for correction in self._dot.corrections]
        self._apart.compute(tile, self._held_vectors(tile), summed, numbers, self._stage.products, self._stage.rest)

    def words_beside(self, tile: Ranges) -> int:
        """Words that the buffer of a tile's results needs in addition to them."""
        return 0 if self._apart is None else self._apart.words(tile)

    def _partial_sums(self, units: range, groups: Sequence[tuple[range, Box]]) -> list[dict[str, range]]:
        """Ranges of the summed loop and the taps that together cover the weights that are not zero."""
        loops = (self._weights.summed, *self._weights.taps)
        sums: list[dict[str, range]] = [{}]
        for loop, extent in zip(loops, self._weights.hull(units), strict=True):
            cuts = [range(extent.start + c.start, extent.start + c.stop) for c in
                    cut(len(extent), self._job.choice.sizes[loop])]  # fmt: skip
            sums = [{**terms, loop: cut} for terms in sums for cut in cuts]
        return [terms for terms in sums if any(self._is_in(box, terms) for _, box in groups)]

    def _is_in(self, box: Box, terms: Mapping[str, range]) -> bool:
        return all(map(common, box, self._box(terms)))

    def _box(self, terms: Mapping[str, range]) -> Box:
        return tuple(terms[loop] for loop in (self._weights.summed, *self._weights.taps))

    def _operations(
        self, tile: Ranges, units: range, box: Box, tiles: BufferAddress, result: tuple[str, Layout],
        adds: bool,
    ) -> None:  # fmt: skip
        """The product of units that share a box of weights, and its corrections."""
        space, format = self._space, self._dot.format
        inside = {**tile, **dict(zip((self._weights.summed, *self._weights.taps), box, strict=True))}
        vector, weights = self._vector, self._matrix
        buffer, layout = result
        c = BufferAddress(buffer, layout.address(
            tile[space.batch].start, units.start * self._job.shape.unit, tile[space.row].start,
            tile[space.column].start,
        ))  # fmt: skip
        over_results = {**loop_strides(space, layout), space.lane: layout.group_stride}
        products = [(self._vectors(tile, inside), (tiles, self._weight_strides(box)))]
        within = () if self._apart is not None else self._dot.corrections
        products += [self._correction(correction, *products[0], box[0]) for correction in within]
        for position, ((a, over_vectors), (w, over_tiles)) in enumerate(products):
            bases = {vector.name: a, weights.name: w, format.destination.name: c}
            strides = {vector.name: over_vectors, weights.name: over_tiles, format.destination.name: over_results}
            loops = [word_loop(self._dot, len(units), space.lane, strides)]
            for loop in (*self._weights.taps, self._weights.summed):
                loops.append(word_loop(self._dot, len(inside[loop]), loop, strides, is_reduce=True))
            loops += [word_loop(self._dot, len(inside[k]), k, strides) for k in space.points if k != NO_LOOP]
            self._builder.sink = self._stage.products
            self._builder.operation(format, bases, loops, self._dot.immediates, adds or position > 0)

    def _correction(self, correction: Correction, vectors: _Walk, tiles: _Walk, summed: range) -> tuple[_Walk, _Walk]:
        """The vectors and tiles of a product with a number, where the product of two tensors has these."""
        number = correction.number
        if correction.is_vector:
            group, element = self._job.shape.group, self._builder.machine.memories[self._vector.memory].element
            count = group * self._job.shape.lanes
            held = self._chip.constant(
                f"vector {number}", number, self._vector.memory, f"vector{number}", group,
                lambda job, constants: pack_integers(np.full(count, number), element.bits), self._stage.early, group,
            )  # fmt: skip
            return (BufferAddress(held, 0), {}), tiles
        return vectors, (self._number_tiles(number, summed), {self._weights.summed: self._weights.rows})

    def _number_tiles(self, number: int, summed: range) -> BufferAddress:
        """Weight tiles that hold one number, zeros beyond the summed channels; all units and taps use the same."""
        rows, memory = self._weights.rows, self._builder.machine.memories[self._matrix.memory]
        element = self._matrix.element
        width = memory.word_bytes * BYTE_BITS // element.bits
        channels = np.arange(summed.start * rows, summed.stop * rows)
        row_values = np.where(channels < self._space.trips[self._weights.summed], number, 0)
        held = self._chip.constant(
            f"weight {number}", summed, memory.name, f"weight{number}", len(channels),
            lambda job, constants: pack_integers(np.repeat(row_values, width), element.bits),
            self._stage.early,
        )  # fmt: skip
        return BufferAddress(held, 0)

    def _vectors(self, tile: Ranges, inside: Ranges) -> _Walk:
        """Where a partial sum's first vector is, on chip, and how the loops walk over the others."""
        access, group, summed = self._read_of_vectors(), self._job.shape.group, self._weights.summed
        shift = access.index[CHANNEL].constant // self._job.shape.lanes
        buffer, layout = self._held_vectors(tile)
        first = inside[summed].start * group + shift
        batch, row, column = pixel_at(access, {loop: r.start for loop, r in inside.items()})
        strides = {**access_strides(access, layout), summed: layout.group_stride}
        return BufferAddress(buffer, layout.address(batch, first, row, column)), strides

    def _read_of_vectors(self) -> Access:
        read = self._dot.inputs[self._vector.name]
        assert isinstance(read, TensorRead)
        return self._nest.reads[read.read]

    def _held_vectors(self, tile: Ranges) -> tuple[str, Layout]:
        """The place on chip of the vectors of a partial sum."""
        read, group = self._dot.inputs[self._vector.name], self._job.shape.group
        assert isinstance(read, TensorRead)
        blocks = tile[self._weights.summed]
        shift = self._nest.reads[read.read].index[CHANNEL].constant // self._job.shape.lanes
        wanted = range(blocks.start * group + shift, blocks.stop * group + shift)
        return self._chip.tensor_tile(read.read, tile, wanted, self._stage.early)

    def _load_tiles(self, tile: Ranges, boxes: Sequence[tuple[range, Box]]) -> list[BufferAddress]:
        """Where the weights of each box of some units are, for a partial sum; loaded together if they are not there."""
        bound = self._dot.inputs[self._matrix.name]
        if isinstance(bound, ComputedMatrix):
            [(units, (summed,))] = boxes
            return [self._computed_tiles(bound.read, tile, units, summed)]
        memory = self._builder.machine.memories[self._matrix.memory]
        words = [self._weights.rows * len(units) * prod(len(r) for r in box) for units, box in boxes]

        def content(job: NestJob, constants: Constants) -> bytes:
            assert job.shape.weights is not None
            return b"".join([job.shape.weights.bytes(units, box, self._matrix.element) for units, box in boxes])

        # What the partial sum before used is let go: kept longer, it would take another's place.
        key = tuple(boxes)
        buffer = self._chip.constant(WEIGHTS_SLOT, key, memory.name, "w", sum(words), content, self._stage.early)
        return [BufferAddress(buffer, first) for first in accumulate(words[:-1], initial=0)]

    def _computed_tiles(self, read: str, tile: Ranges, units: range, summed: range) -> BufferAddress:
        """Where the tiles of a computed matrix are: [unit, summed block, row], zeros where the tensor has ended."""
        access = self._nest.reads[read]
        starts = {loop: tile[loop].start for loop in choosing_loops(access, self._space)}
        load = self._load_transposed if is_transposing(self._dot.format) else self._load_straight

        def fill() -> str:
            words = len(units) * len(summed) * self._weights.rows
            target = self._builder.buffer(f"{self._nest.name}.{read}", self._matrix.memory, words)
            load(access, starts, units, summed, target)
            return target

        key = (units, summed, *starts.items())
        return BufferAddress(self._chip.words(WEIGHTS_SLOT, key, fill, self._stage.early), 0)

    def _load_straight(
        self, access: Access, starts: Mapping[str, int], units: range, summed: range, target: str
    ) -> None:
        """A word of the tensor is a row over the result's channels; its pixels are the summed channels."""
        rows, in_unit = self._weights.rows, len(summed) * self._weights.rows
        begin = summed.start * rows
        there = min(in_unit, self._space.trips[self._weights.summed] - begin)
        for run in self._runs(access, starts, self._weights.summed, units, range(begin, begin + there)):
            loops = [(len(run.blocks), run.block_stride, in_unit), (len(run.pixels), run.pixel_stride, 1)]
            word = run.blocks.start * in_unit + run.pixels.start
            self._builder.load_words(run.buffer, run.first, target, word, loops)
        self._chip.zeros(target, there, [(len(units), in_unit), (in_unit - there, 1)])

    def _load_transposed(
        self, access: Access, starts: Mapping[str, int], units: range, summed: range, target: str
    ) -> None:
        """A word of the tensor is a column over the summed channels; its pixels are the result's channels."""
        rows, in_unit = self._weights.rows, len(summed) * self._weights.rows
        begin = units.start * rows
        pixels = range(begin, min(units.stop * rows, self._space.trips[self._space.lane]))
        for run in self._runs(access, starts, self._space.lane, summed, pixels):
            byte, step = run.first, run.pixel_stride
            for unit, row, count, there in in_tiles(run.pixels, rows):
                loops = [(count, rows * step, in_unit), (len(run.blocks), run.block_stride, rows), (there, step, 1)]
                word = unit * in_unit + run.blocks.start * rows + row
                self._builder.load_words(run.buffer, byte, target, word, loops)
                byte += count * there * step
        unit, there = divmod(len(pixels), rows)
        if there:
            self._chip.zeros(target, unit * in_unit + there, [(len(summed), rows), (rows - there, 1)])

    def _runs(
        self, access: Access, starts: Mapping[str, int], over_pixels: str, blocks: range, pixels: range
    ) -> list[WordRun]:
        """Some lane blocks of a computed matrix, of pixels that a loop walks along."""
        home, shift = self._job.homes[access.tensor], access.index[CHANNEL].constant // self._job.shape.lanes
        assert isinstance(home, InDram)
        batch, row, column = pixel_at(access, {over_pixels: 0, **starts})
        is_row = pixel_dimension(access, self._nest, over_pixels) == ROW
        return runs(home, batch, range(blocks.start + shift, blocks.stop + shift), row, column, pixels, is_row)

    def _weight_strides(self, box: Box) -> dict[str, int]:
        """Strides of the loops over the weights in a box: rows of tiles, summed blocks innermost, units outermost."""
        stride, strides = self._weights.rows, {}
        for loop, extent in zip(
            (self._weights.summed, *reversed(self._weights.taps)), (box[0], *reversed(box[1:])), strict=True
        ):
            strides[loop] = stride
            stride *= len(extent)
        strides[self._space.lane] = stride
        return strides


def _groups(weights: WeightTiles, units: range) -> list[tuple[range, Box]]:
    """Consecutive units whose weights fill the same pieces of a box, with each piece."""
    groups: list[tuple[range, Box]] = []
    for pieces, members in groupby(units, key=lambda unit: weights.pieces[unit]):
        listed = list(members)
        groups += ((range(listed[0], listed[-1] + 1), piece) for piece in pieces)
    return groups
