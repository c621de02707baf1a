"""One covered nest as engine operations on tiles: load what a tile reads, compute it step by step, store its result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import prod

import numpy as np

from compiler.layout import DramLayout, Layout, box_layout, outside_runs
from compiler.nest import Access, Affine, NestProgram
from compiler.pack_loops import WordLoop, affine_runs
from compiler.select.cover import Cover, Idle, Intermediate, Parameters, Step, Table, TensorRead, TensorTiles
from compiler.select.product import Correction, choosing_loops, is_transposing, pixel_dimension
from compiler.select.space import NO_LOOP, coefficient
from compiler.stage import Stage
from compiler.tile import BufferAddress, TileOperation
from compiler.tile_builder import Fill, TileBuilder
from compiler.tiling import NestShape, TileChoice, extents
from compiler.weight_tiles import Box, WeightTiles, pack_parameters
from isa.encoding import Operand
from isa.templates import systolic_activations, systolic_weights

WEIGHTS_SLOT, PARAMETER_SLOT, TABLE_SLOT, READ_SLOT = "weights", "parameters ", "table ", "read "
"""What the last tile of each thing that was loaded is remembered under."""


@dataclass(frozen=True)
class Whole:
    """A tensor that lies whole on chip."""

    buffer: str
    layout: Layout


@dataclass(frozen=True)
class InDram:
    """A tensor that lies in DRAM."""

    buffer: str
    layout: DramLayout


@dataclass(frozen=True)
class NestJob:
    """A nest with everything decided: what computes it, in which tiles, where its tensors are."""

    shape: NestShape
    choice: TileChoice
    homes: Mapping[str, Whole | InDram]  # by tensor, of everything that it reads
    result: Whole | None  # where its result stays on chip
    result_in_dram: InDram | None  # where its result is stored
    fills: Mapping[int, Fill]  # by value of elements outside
    home: str  # the memory that the tensors that it reads live in
    stored_from: str  # the memory that its result is computed into

    @property
    def cover(self) -> Cover:
        return self.shape.cover


@dataclass(frozen=True)
class _View:
    """What an operand reads or writes in a tile: word offsets of each lane block, and strides of the nest's loops."""

    buffer: str
    offsets: tuple[int, ...]
    strides: Mapping[str, int]


_Walk = tuple[BufferAddress, dict[str, int]]
"""Where an operand begins, and its strides over the nest's loops."""

Ranges = Mapping[str, range]
"""A tile: for each loop its iterations; of the lane loop, its lane blocks; of the summed loop, its vectors."""


class NestLowering:
    """Lowers one nest; keeps the last tile of everything it loads, so that a tile in use is not loaded again."""

    def __init__(self, job: NestJob, program: NestProgram, builder: TileBuilder, weights: WeightTiles | None) -> None:
        self._job = job
        self._program = program
        self._builder = builder
        self._weights = weights
        self._nest = job.cover.nest
        self._space = job.cover.space
        self._lanes = builder.machine.lanes
        self._loaded: dict[str, tuple[object, str, Layout | None]] = {}
        self._constants: dict[object, str] = {}
        self._stage = Stage()

    def stages(self) -> Iterator[Stage]:
        """The stages of all tiles, in an order that may be executed one after the other."""
        for tile in self._tiles():
            buffers: dict[int, tuple[str, Layout]] = {}
            dot = self._job.cover.dot
            if dot is not None:
                yield from self._dot_stages(dot, tile, buffers)
            else:
                self._begin_stage()
            for index, step in enumerate(self._job.cover.steps):
                if not step.is_dot:
                    self._lane_step(index, step, tile, buffers)
            self._store_result(tile, buffers)
            yield self._stage

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[Ranges]:
        space, sizes = self._space, self._job.choice.sizes
        extent = extents(self._job.shape)
        points = [
            {space.batch: b, space.row: y, space.column: x}
            for b in _cut(extent[space.batch], sizes[space.batch])
            for y in _cut(extent[space.row], sizes[space.row])
            for x in _cut(extent[space.column], sizes[space.column])
        ]
        lanes = [{space.lane: units} for units in _cut(extent[space.lane], sizes[space.lane])]
        whole = {loop: range(extent[loop]) for loop in extent}
        if self._job.choice.points_outer:
            for point in points:
                for units in lanes:
                    yield {**whole, **point, **units}
        else:
            for units in lanes:
                for point in points:
                    yield {**whole, **point, **units}

    def _blocks(self, tile: Ranges) -> range:
        """The lane blocks of the result that a tile computes."""
        units, unit = tile[self._space.lane], self._job.shape.unit
        channels = self._space.trips[self._space.lane]
        return range(units.start * unit, min(units.stop * unit, -(-channels // self._lanes)))

    def _begin_stage(self) -> None:
        self._stage = Stage()

    # -- matrix products -----------------------------------------------------------------------------------------------

    def _dot_stages(self, dot: Step, tile: Ranges, buffers: dict[int, tuple[str, Layout]]) -> Iterator[Stage]:
        """The parts of a tile's sum; the last part's stage is left open for the steps that follow."""
        assert self._weights is not None
        index = self._job.cover.steps.index(dot)
        units = tile[self._space.lane]
        layout = self._tile_layout(tile, units, dot)
        buffers[index] = (self._new_tile(f"t{index}", dot, layout), layout)
        groups = _equal_boxes(self._weights, units)
        begun: set[range] = set()
        for position, part in enumerate(self._parts(units, groups)):
            if position:
                yield self._stage
            self._begin_stage()
            part_tile = {**tile, **part}
            common = {
                group: tuple(_common(a, b) for a, b in zip(box, self._part_box(part), strict=True))
                for group, box in groups
                if self._is_in(box, part)
            }
            tiles = self._load_tiles(dot, part_tile, common)
            for group, box in common.items():
                self._dot_operation(dot, part_tile, group, box, tiles[group], buffers[index], group in begun)
                begun.add(group)

    def _parts(self, units: range, groups: Sequence[tuple[range, Box]]) -> list[dict[str, range]]:
        """Ranges of the summed loop and the taps that together cover the weights that are not zero."""
        assert self._weights is not None
        loops = (self._weights.summed, *self._weights.taps)
        parts: list[dict[str, range]] = [{}]
        for loop, extent in zip(loops, self._weights.hull(units), strict=True):
            cuts = [range(extent.start + c.start, extent.start + c.stop) for c in
                    _cut(len(extent), self._job.choice.sizes[loop])]  # fmt: skip
            parts = [{**part, loop: cut} for part in parts for cut in cuts]
        return [part for part in parts if any(self._is_in(box, part) for _, box in groups)]

    def _is_in(self, box: Box, part: Mapping[str, range]) -> bool:
        return all(map(_common, box, self._part_box(part)))

    def _part_box(self, part: Mapping[str, range]) -> Box:
        assert self._weights is not None
        return tuple(part[loop] for loop in (self._weights.summed, *self._weights.taps))

    def _dot_operation(
        self, dot: Step, tile: Ranges, units: range, box: Box, tiles: BufferAddress, result: tuple[str, Layout],
        adds: bool,
    ) -> None:  # fmt: skip
        """One instruction's worth of a matrix product: units that share a box of weights."""
        assert self._weights is not None
        space, of = self._space, dot.format
        inside = {**tile, **dict(zip((self._weights.summed, *self._weights.taps), box, strict=True))}
        vector, weights = systolic_activations(of), systolic_weights(of)
        read = dot.inputs[vector.name]
        assert isinstance(read, TensorRead)
        buffer, layout = result
        c = BufferAddress(buffer, layout.address(
            tile[space.batch].start, units.start * self._job.shape.unit, tile[space.row].start,
            tile[space.column].start,
        ))  # fmt: skip
        over_results = {**self._loop_strides(layout), space.lane: layout.group_stride}
        products = [(self._vector_view(read.read, tile, inside), (tiles, self._weight_strides(box)))]
        products += [self._correction(correction, dot, *products[0], box[0]) for correction in dot.corrections]
        for position, ((a, over_vectors), (w, over_tiles)) in enumerate(products):
            bases = {vector.name: a, weights.name: w, of.destination.name: c}
            strides = {vector.name: over_vectors, weights.name: over_tiles, of.destination.name: over_results}
            loops = [_word_loop(dot, len(units), space.lane, strides)]
            for loop in (*self._weights.taps, self._weights.summed):
                loops.append(_word_loop(dot, len(inside[loop]), loop, strides, is_reduce=True))
            loops += [_word_loop(dot, len(inside[k]), k, strides) for k in space.points if k != NO_LOOP]
            self._builder.sink = self._stage.products
            self._builder.operation(of, bases, loops, dot.immediates, adds or position > 0)

    def _correction(
        self, correction: Correction, dot: Step, vectors: _Walk, tiles: _Walk, summed: range
    ) -> tuple[_Walk, _Walk]:
        """The vectors and tiles of a product with a number, where the product of two tensors has these."""
        assert self._weights is not None
        memories, number = self._builder.machine.memories, correction.number
        if correction.is_vector:
            operand, group = systolic_activations(dot.format), self._job.shape.group
            element = memories[operand.memory].element
            held = self._held_constant(
                f"vector {number}", number, operand.memory, f"{self._nest.name}.vector{number}", group,
                lambda: np.full(group * self._lanes, number, f"<i{element.bytes}").tobytes(), self._stage.early, group,
            )  # fmt: skip
            return (BufferAddress(held, 0), {}), tiles
        operand, rows = systolic_weights(dot.format), self._weights.rows
        memory = memories[operand.memory]
        channels = np.arange(summed.start * rows, summed.stop * rows)
        of_rows = np.where(channels < self._space.trips[self._weights.summed], number, 0)
        held = self._held_constant(
            f"weight {number}", summed, operand.memory, f"{self._nest.name}.weight{number}",
            len(channels), lambda: np.repeat(of_rows, memory.width).astype(f"<i{memory.element.bytes}").tobytes(),
            self._stage.early,
        )  # fmt: skip
        return vectors, (BufferAddress(held, 0), {self._weights.summed: rows})

    def _vector_view(self, read: str, tile: Ranges, inside: Ranges) -> tuple[BufferAddress, dict[str, int]]:
        assert self._weights is not None
        access = self._nest.reads[read]
        group, summed = self._job.shape.group, self._weights.summed
        blocks = range(tile[summed].start * group, tile[summed].stop * group)
        shift = access.index[1].constant // self._lanes
        wanted = range(blocks.start + shift, blocks.stop + shift)
        buffer, layout = self._tensor_tile(read, tile, wanted, self._stage.early)
        first = inside[summed].start * group + shift
        starts = {loop: r.start for loop, r in inside.items()}
        address = layout.address(
            _at(access.index[0], starts), first, _at(access.index[2], starts), _at(access.index[3], starts)
        )
        return BufferAddress(buffer, address), {**self._access_strides(access, layout), summed: layout.group_stride}

    def _load_tiles(self, dot: Step, tile: Ranges, boxes: Mapping[range, Box]) -> dict[range, BufferAddress]:
        """Where the weights of each group of units are, of a part of a tile; loaded at once if they are not there."""
        assert self._weights is not None
        memory = systolic_weights(dot.format).memory
        bound = dot.inputs[systolic_weights(dot.format).name]
        if isinstance(bound, TensorTiles):
            [(units, (summed,))] = boxes.items()
            return {units: self._computed_tiles(dot, bound.read, memory, tile, units, summed)}
        weights, builder = self._weights, self._builder
        words = [weights.rows * len(units) * prod(len(r) for r in box) for units, box in boxes.items()]

        def content() -> bytes:
            element = builder.machine.memories[memory].element
            return b"".join(weights.bytes(units, box, element) for units, box in boxes.items())

        # What the part before used is let go: kept longer, it would take another's place.
        key, loads = tuple(boxes.items()), self._stage.early
        buffer = self._held_constant(WEIGHTS_SLOT, key, memory, f"{self._nest.name}.w", sum(words), content, loads)
        firsts = accumulate(words, initial=0)
        return {units: BufferAddress(buffer, first) for units, first in zip(boxes, firsts, strict=False)}

    def _computed_tiles(
        self, dot: Step, read: str, memory: str, tile: Ranges, units: range, summed: range
    ) -> BufferAddress:
        """Where the tiles of a computed matrix are: [unit, summed block, row], zeros where the tensor has ended."""
        assert self._weights is not None
        access, rows = self._nest.reads[read], self._weights.rows
        home = self._job.homes[access.tensor]
        assert isinstance(home, InDram)
        starts = {loop: tile[loop].start for loop in choosing_loops(access, self._space)}
        key = (units, summed, *starts.items())
        if self._loaded.get(WEIGHTS_SLOT, (None,))[0] == key:
            return BufferAddress(self._loaded[WEIGHTS_SLOT][1], 0)
        layout, builder, trips = home.layout, self._builder, self._space.trips
        builder.sink = self._stage.early
        a_unit = len(summed) * rows
        target = builder.buffer(f"{self._nest.name}.{read}", memory, len(units) * a_unit)
        self._loaded[WEIGHTS_SLOT] = (key, target, None)
        blocks, is_transposed = access.index[1].constant // self._lanes, is_transposing(dot.format)
        over_pixels = self._space.lane if is_transposed else self._weights.summed
        dimension = pixel_dimension(access, self._nest, over_pixels)
        pixel = (layout.row_stride, layout.column_stride)[dimension - 2]
        batch, row, column = (_at(access.index[d], {over_pixels: 0, **starts}) for d in (0, 2, 3))
        first = layout.address(batch, blocks, row, column)
        # Pieces of [unit, block, row]: (units, blocks of words over channels, rows that there are, rows in all)
        if is_transposed:
            first += summed.start * layout.block_stride + units.start * rows * pixel
            whole = max(0, min(len(units), trips[over_pixels] // rows - units.start))
            pieces = [(0, whole, rows), (whole, len(units) - whole, trips[over_pixels] % rows)]
            for unit, count, there in pieces if whole < len(units) else pieces[:1]:
                loops = [(count, rows * pixel, a_unit), (len(summed), layout.block_stride, rows), (there, pixel, 1)]
                builder.load_words(home.buffer, first + unit * rows * pixel, target, unit * a_unit, loops)
                self._zeros(target, unit * a_unit + there, [(count, a_unit), (len(summed), rows), (rows - there, 1)])
        else:
            first += units.start * layout.block_stride + summed.start * rows * pixel
            there = min(a_unit, trips[over_pixels] - summed.start * rows)
            loops = [(len(units), layout.block_stride, a_unit), (there, pixel, 1)]
            builder.load_words(home.buffer, first, target, 0, loops)
            self._zeros(target, there, [(len(units), a_unit), (a_unit - there, 1)])
        return BufferAddress(target, 0)

    def _zeros(self, target: str, word: int, loops: Sequence[tuple[int, int]]) -> None:
        """Words of zeros, where a matrix has ended."""
        if not prod(trip for trip, _ in loops):
            return
        if "zeros" not in self._constants:
            memory = self._builder.machine.memories[self._builder.buffers[target].place]
            self._constants["zeros"] = self._builder.constant(f"{self._nest.name}.zeros", bytes(memory.word_bytes))
        over_words = [(trip, 0, stride) for trip, stride in loops]
        self._builder.load_words(self._constants["zeros"], 0, target, word, over_words)

    def _held_constant(
        self, slot: str, key: Hashable, memory: str, name: str, words: int, content: Callable[[], bytes],
        loads: list[TileOperation], alignment: int = 1,
    ) -> str:  # fmt: skip
        """The buffer with the constant words of a key; `loads` takes what brings them if the slot holds others."""
        if self._loaded.get(slot, (None,))[0] != key:
            constant = (slot, key)
            if constant not in self._constants:
                self._constants[constant] = self._builder.constant(f"{name}.data", content())
            self._builder.sink = loads
            target = self._builder.load_constant(memory, self._constants[constant], name, words, alignment)
            self._loaded[slot] = (key, target, None)
        return self._loaded[slot][1]

    def _weight_strides(self, box: Box) -> dict[str, int]:
        """Strides of the loops over the weights in a box: rows of tiles, summed blocks innermost, units outermost."""
        assert self._weights is not None
        stride, strides = self._weights.rows, {}
        for loop, extent in zip(
            (self._weights.summed, *reversed(self._weights.taps)), (box[0], *reversed(box[1:])), strict=True
        ):
            strides[loop] = stride
            stride *= len(extent)
        strides[self._space.lane] = stride
        return strides

    # -- word for word -------------------------------------------------------------------------------------------------

    def _lane_step(self, index: int, step: Step, tile: Ranges, buffers: dict[int, tuple[str, Layout]]) -> None:
        """One instruction over the lane blocks of a tile."""
        is_last = index == len(self._job.cover.steps) - 1
        views: dict[str, _View] = {}
        for operand in step.format.sources:
            match step.inputs[operand.name]:
                case TensorRead(read):
                    views[operand.name] = self._read_view(read, tile)
                case Intermediate(earlier):
                    views[operand.name] = self._result_view(*buffers[earlier], tile)
                case Parameters() as parameters:
                    views[operand.name] = self._parameter_view(operand.name, operand.memory, parameters, tile)
                case Table(read):
                    views[operand.name] = self._table_view(read, operand, tile)
                case Idle():
                    pass
                case other:
                    raise AssertionError(other)
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if isinstance(bound, Idle):
                views[operand.name] = views[bound.like]
        views[step.format.destination.name] = self._destination_view(index, step, is_last, tile, buffers)
        self._run_lanes(step, views, tile)

    def _run_lanes(self, step: Step, views: Mapping[str, _View], tile: Ranges) -> None:
        of, space = step.format, self._space
        strides = {name: dict(view.strides) for name, view in views.items()}
        inner = [_word_loop(step, len(tile[loop]), loop, strides) for loop in space.points if loop != NO_LOOP]
        if step.reduces:
            inner += [_word_loop(step, len(tile[loop]), loop, strides, is_reduce=True) for loop in space.reduce]
        points = list(zip(*(views[operand.name].offsets for operand in of.operands), strict=True))
        self._builder.sink = self._stage.rest
        for first, over_blocks in affine_runs(points):
            bases = {
                operand.name: BufferAddress(views[operand.name].buffer, offset)
                for operand, offset in zip(of.operands, first, strict=True)
            }
            self._builder.operation(of, bases, [*over_blocks, *inner], step.immediates)

    def _read_view(self, read: str, tile: Ranges) -> _View:
        access = self._nest.reads[read]
        shift = access.index[1].constant // self._lanes
        moves = coefficient(access.index[1], self._space.lane)
        blocks = self._blocks(tile) if moves else range(0, 1)
        wanted = range(blocks.start + shift, blocks.stop + shift)
        buffer, layout = self._tensor_tile(read, tile, wanted, self._stage.late)
        starts = {loop: r.start for loop, r in tile.items()}
        batch, row, column = (_at(access.index[d], starts) for d in (0, 2, 3))
        offsets = tuple(layout.address(batch, block, row, column) for block in wanted)
        return _View(buffer, offsets, self._access_strides(access, layout))

    def _result_view(self, buffer: str, layout: Layout, tile: Ranges) -> _View:
        """A tile that is laid out by the nest's own loops."""
        space = self._space
        batch, row, column = (tile[loop].start for loop in space.points)
        offsets = tuple(layout.address(batch, block, row, column) for block in self._blocks(tile))
        return _View(buffer, offsets, self._loop_strides(layout))

    def _destination_view(
        self, index: int, step: Step, is_last: bool, tile: Ranges, buffers: dict[int, tuple[str, Layout]]
    ) -> _View:
        whole = self._job.result
        if is_last and whole is not None:
            access = self._nest.result
            shift = access.index[1].constant // self._lanes
            starts = {loop: r.start for loop, r in tile.items()}
            batch, row, column = (_at(access.index[d], starts) for d in (0, 2, 3))
            offsets = tuple(whole.layout.address(batch, b + shift, row, column) for b in self._blocks(tile))
            return _View(whole.buffer, offsets, self._access_strides(access, whole.layout))
        layout = self._tile_layout(tile, tile[self._space.lane], step)
        buffers[index] = (self._new_tile(f"t{index}", step, layout), layout)
        return self._result_view(*buffers[index], tile)

    def _parameter_view(self, operand: str, memory: str, parameters: Parameters, tile: Ranges) -> _View:
        blocks = self._blocks(tile)
        slot = f"{PARAMETER_SLOT}{operand}.{sorted(parameters.fields.items(), key=str)}"
        buffer = self._held_constant(
            slot, blocks, memory, f"{self._nest.name}.{operand}", len(blocks),
            lambda: self._parameter_words(memory, parameters, blocks), self._stage.late,
        )  # fmt: skip
        return _View(buffer, tuple(range(len(blocks))), {})

    def _table_view(self, read: str, operand: Operand, tile: Ranges) -> _View:
        """The tables of a tile's lane blocks: one for all, or one for each."""
        access, blocks = self._nest.reads[read], self._blocks(tile)
        is_common = not any(index.terms for index in access.index)
        wanted = range(1) if is_common else blocks
        buffer = self._held_constant(
            f"{TABLE_SLOT}{read}", wanted, operand.memory, f"{self._nest.name}.{read}", len(wanted) * operand.block,
            lambda: self._table_words(access, operand, None if is_common else wanted), self._stage.late,
        )  # fmt: skip
        step = 0 if is_common else operand.block
        return _View(buffer, tuple(position * step for position in range(len(blocks))), {})

    def _table_words(self, access: Access, operand: Operand, blocks: range | None) -> bytes:
        """A word for each entry of the tables of some lane blocks, or of the one table that all lanes share."""
        of = self._builder.machine.memories[operand.memory]
        entries = self._channel_values(access)  # [entries], or [C, entries]
        if blocks is None:
            rows = np.broadcast_to(entries, (1, of.width, operand.block))
        else:
            channels = np.arange(blocks.start * of.width, blocks.stop * of.width)
            rows = entries[np.minimum(channels, len(entries) - 1)].reshape(len(blocks), of.width, operand.block)
        return np.ascontiguousarray(np.swapaxes(rows, 1, 2)).astype(f"<i{of.element.bytes}").tobytes()

    def _parameter_words(self, memory: str, parameters: Parameters, blocks: range) -> bytes:
        of = self._builder.machine.memories[memory]
        channels = self._space.trips[self._space.lane]
        values = {}
        for name, bound in parameters.fields.items():
            constant = (
                np.asarray(bound, np.int64) if isinstance(bound, int) else self._channel_values(self._nest.reads[bound])
            )
            full = np.broadcast_to(constant, (channels,))
            values[name] = full[blocks.start * of.width : blocks.stop * of.width]
        return pack_parameters(of.element, of.width, len(blocks), values)

    def _channel_values(self, access: Access) -> np.ndarray:
        where = tuple(slice(None) if index.terms else index.constant for index in access.index)
        return np.asarray(self._program.constants[access.tensor][where])

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _tensor_tile(self, read: str, tile: Ranges, blocks: range, loads: list[TileOperation]) -> tuple[str, Layout]:
        """Where a tile of a tensor is on chip; `loads` takes what brings it and its padding if it is not there."""
        access = self._nest.reads[read]
        home = self._job.homes[access.tensor]
        if isinstance(home, Whole):
            return home.buffer, home.layout
        batch, rows, columns = (_span(access.index[d], tile) for d in (0, 2, 3))
        key = (batch, blocks, rows, columns)
        held = self._loaded.get(READ_SLOT + read)
        if held is not None and held[0] == key and held[2] is not None:
            return held[1], held[2]
        self._builder.sink = loads
        there = _common(blocks, range(home.layout.blocks))
        group = self._job.shape.group
        layout = box_layout(group, batch, there, rows, columns)
        buffer = self._builder.buffer(f"{self._nest.name}.{read}", self._job.home, layout.words, group)
        inner_rows = _common(rows, range(home.layout.shape[2]))
        inner_columns = _common(columns, range(home.layout.shape[3]))
        outside = outside_runs(layout, inner_rows, inner_columns)
        if outside:
            assert access.outside is not None, f"{self._nest.name}: {read} leaves its bounds"
            self._builder.fill_runs(self._job.fills[access.outside], buffer, layout, outside)
        if layout.groups * group > layout.blocks:
            self._builder.fill_missing_blocks(
                next(iter(self._job.fills.values())), buffer, layout, inner_rows, inner_columns
            )
        if inner_rows and inner_columns:
            self._builder.load_box(home.buffer, home.layout, buffer, layout, batch, there, inner_rows, inner_columns)
        self._loaded[READ_SLOT + read] = (key, buffer, layout)
        return buffer, layout

    def _store_result(self, tile: Ranges, buffers: Mapping[int, tuple[str, Layout]]) -> None:
        """Save the tile's result where DRAM wants it, from the tile or from the whole tensor on chip."""
        target, space, access = self._job.result_in_dram, self._space, self._nest.result
        if target is None:
            return
        last = len(self._job.cover.steps) - 1
        view = self._destination_again(tile) if self._job.result else self._result_view(*buffers[last], tile)
        shift = access.index[1].constant // self._lanes
        starts = {loop: r.start for loop, r in tile.items()}
        batch, row, column = (_at(access.index[d], starts) for d in (0, 2, 3))
        blocks = [
            (target.layout.address(batch, block + shift, row, column), word)
            for block, word in zip(self._blocks(tile), view.offsets, strict=True)
        ]
        strides = self._access_strides(access, target.layout)
        loops = [(len(tile[k]), strides.get(k, 0), view.strides.get(k, 0)) for k in space.points]
        self._builder.sink = self._stage.rest
        store = self._builder.transfers.store(self._job.stored_from)
        self._builder.move(store, target.buffer, view.buffer, blocks, loops)

    def _destination_again(self, tile: Ranges) -> _View:
        last = len(self._job.cover.steps) - 1
        return self._destination_view(last, self._job.cover.steps[last], True, tile, {})

    def _tile_layout(self, tile: Ranges, units: range, step: Step) -> Layout:
        """A tile of results, by the nest's own loops."""
        space, unit = self._space, self._job.shape.unit
        blocks = range(units.start * unit, units.stop * unit) if step.is_dot else self._blocks(tile)
        group = step.format.destination.block if step.is_dot else self._job.shape.group
        return box_layout(group, tile[space.batch], blocks, tile[space.row], tile[space.column])

    def _new_tile(self, name: str, step: Step, layout: Layout) -> str:
        memory = step.format.destination.memory
        return self._builder.buffer(f"{self._nest.name}.{name}", memory, layout.words, layout.group)

    def _loop_strides(self, layout: Layout) -> dict[str, int]:
        space = self._space
        strides = {space.batch: layout.batch_stride, space.row: layout.row_stride, space.column: layout.column_stride}
        strides.pop(NO_LOOP, None)
        return strides

    def _access_strides(self, access: Access, layout: Layout | DramLayout) -> dict[str, int]:
        """Stride of every loop that moves an access over batches, rows and columns."""
        strides: dict[str, int] = {}
        for d, step in ((0, layout.batch_stride), (2, layout.row_stride), (3, layout.column_stride)):
            for loop, by in access.index[d].terms:
                strides[loop] = strides.get(loop, 0) + by * step
        return strides


def _word_loop(
    step: Step, trip: int, loop: str, strides: Mapping[str, Mapping[str, int]], is_reduce: bool = False
) -> WordLoop:
    of = step.format
    return WordLoop(trip, tuple(strides[operand.name].get(loop, 0) for operand in of.operands), is_reduce)


def _cut(extent: int, size: int) -> list[range]:
    return [range(start, min(start + size, extent)) for start in range(0, extent, size)]


def _common(a: range, b: range) -> range:
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    return range(start, max(start, stop))


def _at(index: Affine, starts: Mapping[str, int]) -> int:
    return index.constant + sum(by * starts[loop] for loop, by in index.terms)


def _span(index: Affine, tile: Ranges) -> range:
    """From the smallest to the largest index that a tile reads."""
    ends = [sorted((by * tile[loop].start, by * (tile[loop].stop - 1))) for loop, by in index.terms]
    return range(index.constant + sum(e[0] for e in ends), index.constant + sum(e[1] for e in ends) + 1)


def _equal_boxes(weights: WeightTiles, units: range) -> list[tuple[range, Box]]:
    """Consecutive units whose weights fill the same box."""
    groups = []
    for box, members in groupby(units, key=lambda unit: weights.boxes[unit]):
        listed = list(members)
        groups.append((range(listed[0], listed[-1] + 1), box))
    return groups
