"""One covered nest as engine operations on tiles: load what a tile reads, compute it step by step, store its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.space import NO_LOOP, coefficient
from tilewright.compiler.select.bindings import (
    ComputedMatrix,
    ConstantMatrix,
    Idle,
    Intermediate,
    Parameters,
    TableBinding,
    TensorRead,
)
from tilewright.compiler.select.cover import Step
from tilewright.compiler.tile.program import BufferAddress
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.dot import DotLowering
from tilewright.compiler.tiling.job import (
    IN_GROUP,
    Content,
    NestJob,
    OperandView,
    Ranges,
    access_strides,
    cut,
    loop_strides,
    pixel_at,
    span,
    word_loop,
)
from tilewright.compiler.tiling.layout import Layout, box_layout
from tilewright.compiler.tiling.on_chip import ConstantViews, OnChip
from tilewright.compiler.tiling.pack_loops import affine_runs
from tilewright.compiler.tiling.shape import Within, extents
from tilewright.compiler.tiling.stage import Stage


class NestLowering:
    """Lowers one nest. It remembers the last tile of everything that it loads, so as not to load it twice."""

    def __init__(self, job: NestJob, program: NestProgram, builder: TileBuilder) -> None:
        self._job = job
        self._builder = builder
        self._nest = job.cover.nest
        self._space = job.cover.space
        self._lanes = builder.machine.lanes
        self._chip = OnChip(job, program.constants, builder)
        self._constants = ConstantViews(job, program, self._chip, builder)
        dot, weights = job.cover.dot, job.shape.weights
        self._dot: DotLowering | None = None
        if dot is not None and weights is not None:
            self._dot = DotLowering(job, dot, weights, self._chip, builder)
        self._stage = Stage()
        self._within = {within.read: (within, NestLowering(own, program, builder)) for within, own in job.within}
        self._held: dict[str, tuple[str, Layout]] = {}  # of a tile, by read: what was computed within it
        self.result_within = ("", box_layout(1, range(0), range(0), range(0), range(0)))

    @property
    def contents(self) -> Mapping[str, Content]:
        """How the constants get their bytes that were made for this nest, by buffer."""
        return self._chip.contents

    def stages(self) -> Iterator[Stage]:
        """The stages of all tiles, in an order that may be executed one after the other."""
        for tile in self._tiles():
            for read, (within, lowering) in self._within.items():
                yield from lowering.stages_within(self._tile_within(within, tile))
                self._held[read] = lowering.result_within
            buffers: dict[int, tuple[str, Layout]] = {}
            *finished, self._stage = self._dot_stages(tile, buffers)
            yield from finished
            for index, step in enumerate(self._job.cover.steps):
                if not step.is_dot:
                    self._lane_step(index, step, tile, buffers)
            self._store_result(tile, buffers)
            yield self._stage

    def stages_within(self, tile: Ranges) -> Iterator[Stage]:
        """The stages of one tile of a nest that is computed within another one, and where its result is then."""
        buffers: dict[int, tuple[str, Layout]] = {}
        yield from self._dot_stages(tile, buffers)
        (self.result_within,) = buffers.values()

    def _tile_within(self, within: Within, tile: Ranges) -> Ranges:
        """The tile of a nest that holds what a tile of its reader reads."""
        access, space, extent = self._nest.reads[within.read], within.shape.cover.space, extents(within.shape)
        own = {loop: range(extent[loop]) for loop in extent}
        for dimension, loop in zip((BATCH, ROW, COLUMN), space.points, strict=True):
            own[loop] = span(access.index[dimension], tile)
        own[space.lane] = tile[self._space.lane]
        return {**own, NO_LOOP: range(1)}

    def _dot_stages(self, tile: Ranges, buffers: dict[int, tuple[str, Layout]]) -> list[Stage]:
        """The partial sums of a tile's matrix product; one empty stage without a product."""
        dot = self._job.cover.dot
        if dot is None or self._dot is None:
            return [Stage()]
        index = self._job.cover.steps.index(dot)
        if self._job.result is not None and index == len(self._job.cover.steps) - 1:
            buffers[index] = self._whole_result()
            return list(self._dot.stages(tile, buffers[index]))
        layout = self._tile_layout(tile, tile[self._space.lane], dot)
        buffers[index] = (self._new_tile(f"t{index}", dot, layout, self._dot.words_beside(tile)), layout)
        return list(self._dot.stages(tile, buffers[index]))

    def _whole_result(self) -> tuple[str, Layout]:
        """The tensor on chip that the array writes to, with a layout that goes by the nest's own loops."""
        assert self._job.result is not None
        access, layout = self._nest.result, self._job.result.layout
        batch, channel, row, column = (index.constant for index in access.index)
        own = replace(
            layout,
            first_batch=layout.first_batch - batch,
            first_block=layout.first_block - channel // self._lanes,
            first_row=layout.first_row - row,
            first_column=layout.first_column - column,
        )
        return self._job.result.buffer, own

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[Ranges]:
        space, sizes = self._space, self._job.choice.sizes
        extent = extents(self._job.shape)
        points = [
            {space.batch: b, space.row: y, space.column: x}
            for b in cut(extent[space.batch], sizes[space.batch])
            for y in cut(extent[space.row], sizes[space.row])
            for x in cut(extent[space.column], sizes[space.column])
        ]
        lanes = [{space.lane: units} for units in cut(extent[space.lane], sizes[space.lane])]
        whole = {loop: range(extent[loop]) for loop in extent}
        if self._job.choice.points_outer:
            for point in points:
                for units in lanes:
                    yield {**whole, **point, **units}
        else:
            for units in lanes:
                for point in points:
                    yield {**whole, **point, **units}

    # -- word for word -------------------------------------------------------------------------------------------------

    def _lane_step(self, index: int, step: Step, tile: Ranges, buffers: dict[int, tuple[str, Layout]]) -> None:
        """One instruction over the lane blocks of a tile."""
        is_last = index == len(self._job.cover.steps) - 1
        views: dict[str, OperandView] = {}
        for operand in step.format.sources:
            match step.inputs[operand.name]:
                case TensorRead(read) if operand.name in step.across:
                    views[operand.name] = self._read_across(read, tile)
                case TensorRead(read):
                    views[operand.name] = self._read_view(read, tile)
                case Intermediate(earlier):
                    views[operand.name] = self._result_view(*buffers[earlier], tile)
                case Parameters() as parameters:
                    views[operand.name] = self._constants.parameters(operand, step, parameters, tile, self._stage.late)
                case TableBinding(read):
                    views[operand.name] = self._constants.table(read, operand, tile, self._stage.late)
                case Idle():
                    pass
                case ConstantMatrix() | ComputedMatrix():
                    raise AssertionError(f"{step.format.mnemonic}: {operand.name} is a matrix of no dot product")
                case other:
                    assert_never(other)
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if isinstance(bound, Idle):
                views[operand.name] = views[bound.like]
        views[step.format.destination.name] = self._destination_view(index, step, is_last, tile, buffers)
        self._run_lanes(step, views, tile)

    def _run_lanes(self, step: Step, views: Mapping[str, OperandView], tile: Ranges) -> None:
        format, space = step.format, self._space
        strides = {name: dict(view.strides) for name, view in views.items()}
        inner = [word_loop(step, len(tile[loop]), loop, strides) for loop in space.points if loop != NO_LOOP]
        if step.reduces:
            for loop in space.reduce:
                if loop == step.word_loop:
                    continue  # an iteration of the instruction takes all of its words
                within = self._job.shape.group if loop == space.across else 1
                inner += [word_loop(step, len(tile[loop]) // within, loop, strides, is_reduce=True)]
                inner += [word_loop(step, within, IN_GROUP, strides, is_reduce=True)] if within > 1 else []
        offsets = [views[operand.name].offsets for operand in format.operands]
        count = len(offsets[-1])  # of the destination; one word serves all lane blocks where it is the same for them
        points = list(zip(*(each * count if len(each) == 1 else each for each in offsets), strict=True))
        self._builder.sink = self._stage.rest
        for first, over_blocks in affine_runs(points):
            bases = {
                operand.name: BufferAddress(views[operand.name].buffer, offset)
                for operand, offset in zip(format.operands, first, strict=True)
            }
            self._builder.operation(format, bases, [*over_blocks, *inner], step.immediates)

    def _read_view(self, read: str, tile: Ranges) -> OperandView:
        access = self._nest.reads[read]
        shift = access.index[CHANNEL].constant // self._lanes
        moves = coefficient(access.index[CHANNEL], self._space.lane)
        blocks = self._job.blocks(tile) if moves else range(0, 1)
        wanted = range(blocks.start + shift, blocks.stop + shift)
        if read in self._within:
            buffer, layout = self._held[read]
        else:
            buffer, layout = self._chip.tensor_tile(read, tile, wanted, self._stage.late)
        starts = {loop: r.start for loop, r in tile.items()}
        batch, row, column = pixel_at(access, starts)
        offsets = tuple(layout.address(batch, block, row, column) for block in wanted)
        return OperandView(buffer, offsets, access_strides(access, layout))

    def _read_across(self, read: str, tile: Ranges) -> OperandView:
        """All channels of a tensor, for a reduction over them."""
        access, across = self._nest.reads[read], self._space.across
        shift = access.index[CHANNEL].constant // self._lanes
        wanted = range(tile[across].start + shift, tile[across].stop + shift)
        buffer, layout = self._chip.tensor_tile(read, tile, wanted, self._stage.late)
        starts = {loop: r.start for loop, r in tile.items()}
        batch, row, column = pixel_at(access, starts)
        strides = {**access_strides(access, layout), across: layout.group_stride, IN_GROUP: 1}
        return OperandView(buffer, (layout.address(batch, shift, row, column),), strides)

    def _result_view(self, buffer: str, layout: Layout, tile: Ranges) -> OperandView:
        """A tile of results, laid out along the nest's loops: all lane blocks, or one that serves them all."""
        space = self._space
        batch, row, column = (tile[loop].start for loop in space.points)
        blocks = range(layout.first_block, layout.first_block + min(layout.blocks, len(self._job.blocks(tile))))
        offsets = tuple(layout.address(batch, block, row, column) for block in blocks)
        return OperandView(buffer, offsets, loop_strides(space, layout))

    def _destination_view(
        self, index: int, step: Step, is_last: bool, tile: Ranges, buffers: dict[int, tuple[str, Layout]]
    ) -> OperandView:
        whole = self._job.result
        if is_last and whole is not None:
            access = self._nest.result
            shift = access.index[CHANNEL].constant // self._lanes
            starts = {loop: r.start for loop, r in tile.items()}
            batch, row, column = pixel_at(access, starts)
            offsets = tuple(whole.layout.address(batch, b + shift, row, column) for b in self._job.blocks(tile))
            return OperandView(whole.buffer, offsets, access_strides(access, whole.layout))
        layout = self._tile_layout(tile, tile[self._space.lane], step)
        buffers[index] = (self._new_tile(f"t{index}", step, layout), layout)
        return self._result_view(*buffers[index], tile)

    # -- results -------------------------------------------------------------------------------------------------------

    def _store_result(self, tile: Ranges, buffers: Mapping[int, tuple[str, Layout]]) -> None:
        """Store the tile's result in DRAM, from the tile or from the whole tensor on chip."""
        target, space, access = self._job.result_in_dram, self._space, self._nest.result
        if target is None:
            return
        last = len(self._job.cover.steps) - 1
        view = self._destination_again(tile) if self._job.result else self._result_view(*buffers[last], tile)
        shift = access.index[CHANNEL].constant // self._lanes
        starts = {loop: r.start for loop, r in tile.items()}
        batch, row, column = pixel_at(access, starts)
        blocks = [
            (target.layout.address(batch, block + shift, row, column), word)
            for block, word in zip(self._job.blocks(tile), view.offsets, strict=True)
        ]
        strides = access_strides(access, target.layout)
        loops = [(len(tile[k]), strides.get(k, 0), view.strides.get(k, 0)) for k in space.points]
        self._builder.sink = self._stage.rest
        store = self._builder.transfers.store(self._job.cover.result_memory)
        self._builder.move(store, target.buffer, view.buffer, blocks, loops)

    def _destination_again(self, tile: Ranges) -> OperandView:
        last = len(self._job.cover.steps) - 1
        return self._destination_view(last, self._job.cover.steps[last], True, tile, {})

    def _tile_layout(self, tile: Ranges, units: range, step: Step) -> Layout:
        """The layout of a tile of results; it follows the nest's loops."""
        space, unit = self._space, self._job.shape.unit
        if step.is_uniform and step is not self._job.cover.steps[-1]:
            return box_layout(1, tile[space.batch], range(1), tile[space.row], tile[space.column])
        blocks = range(units.start * unit, units.stop * unit) if step.is_dot else self._job.blocks(tile)
        group = step.format.destination.block if step.is_dot else self._job.shape.group
        return box_layout(group, tile[space.batch], blocks, tile[space.row], tile[space.column])

    def _new_tile(self, name: str, step: Step, layout: Layout, beside: int = 0) -> str:
        """A buffer for a tile of results, and for other words beside them, then all within one bank if they fit."""
        memory, words = self._builder.machine.memories[step.format.destination.memory], layout.words + beside
        is_in_bank = beside > 0 and words <= memory.stretch_words
        name = f"{self._nest.name}.{name}"
        return self._builder.buffer(name, memory.name, words, layout.group, is_in_bank=is_in_bank)
