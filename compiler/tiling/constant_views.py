"""The words of parameters and tables that an instruction reads in a tile: packed, loaded, and found again if they are
still on chip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.nest import Access, Nest, NestProgram, index_range
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.bindings import Parameters
from tilewright.compiler.select.cover import Step
from tilewright.compiler.tile.program import TileOperation
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.constants import pack_parameters, pack_tables
from tilewright.compiler.tiling.job import IN_GROUP, Constants, NestJob, OperandView, Ranges
from tilewright.compiler.tiling.on_chip import OnChip
from tilewright.compiler.tiling.pixel_parameters import pixel_words
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.memory import Memory

PARAMETER_SLOT, TABLE_SLOT = "parameters ", "table "
"""The keys under which the last words of each kind are remembered."""


class ConstantViews:
    """The words of the parameters and tables of one nest. `loads` takes the operations that bring them."""

    def __init__(self, job: NestJob, program: NestProgram, chip: OnChip, builder: TileBuilder) -> None:
        self._job = job
        self._chip = chip
        self._reads = job.cover.nest.reads
        self._space = job.cover.space
        self._constants = program.constants
        self._memories = builder.machine.memories

    def parameters(
        self, operand: Operand, step: Step, parameters: Parameters, tile: Ranges, loads: list[TileOperation]
    ) -> OperandView:
        """Words of a tile's lane blocks, or of all blocks that a reduction runs over; one word if all are the same.

        Where the parameters differ between pixels, words of the lane blocks for each pixel.
        """
        if parameters.points(self._reads):
            return self._of_pixels(operand, step, parameters, tile, loads)
        space, lanes, memory = self._space, self._job.shape.lanes, self._memories[operand.memory]
        blocks, channels, strides = self._job.blocks(tile), space.trips[space.lane], {}
        across = space.across if operand.name in step.across else NO_LOOP
        if across != NO_LOOP:
            blocks, channels = tile[across], space.trips[across]
            strides = {across: self._job.shape.group, IN_GROUP: 1}
        elif step.is_uniform:
            blocks, channels = blocks[:1], lanes
        offsets = (0,) if across != NO_LOOP else tuple(range(len(blocks)))
        if parameters.is_the_same_for_all(self._reads):
            blocks, channels, offsets, strides = range(1), lanes, (0,) * len(offsets), {}
        buffer = self._chip.constant(
            _slot(operand, parameters), (blocks, channels), memory.name, operand.name, len(blocks),
            lambda job, constants: _packed(job, constants, memory, parameters, blocks, channels), loads,
        )  # fmt: skip
        return OperandView(buffer, offsets, strides)

    def table(self, read: str, operand: Operand, tile: Ranges, loads: list[TileOperation]) -> OperandView:
        """The tables of a tile's lane blocks: one for all, or one for each."""
        access, memory = self._reads[read], self._memories[operand.memory]
        is_common = not any(index.terms for index in access.index)
        blocks = range(1) if is_common else self._job.blocks(tile)
        words = len(blocks) * operand.block
        buffer = self._chip.constant(
            f"{TABLE_SLOT}{read}", blocks, memory.name, read, words,
            lambda job, constants: _tables(job, constants, memory, read, None if is_common else blocks), loads,
        )  # fmt: skip
        return OperandView(buffer, tuple(range(0, words, operand.block)), {})

    def _of_pixels(
        self, operand: Operand, step: Step, parameters: Parameters, tile: Ranges, loads: list[TileOperation]
    ) -> OperandView:
        blocks = self._job.blocks(tile)[:1] if step.is_uniform else self._job.blocks(tile)
        points, memory = [tile[loop] for loop in self._space.points], self._memories[operand.memory]
        words = pixel_words(parameters, self._reads, self._constants, blocks, points, memory.width)
        buffer = self._chip.constant(
            _slot(operand, parameters), (blocks, *points), memory.name, operand.name, words.count,
            lambda job, constants: words.packed(memory), loads,
        )  # fmt: skip
        return OperandView(buffer, words.offsets, words.strides(self._space.points))


def _packed(
    job: NestJob, constants: Constants, memory: Memory, parameters: Parameters, blocks: range, channels: int
) -> bytes:
    values = {}
    for field, bound in parameters.fields.items():
        constant = np.asarray(bound, np.int64) if isinstance(bound, int) else _values(job, constants, bound)
        full = np.broadcast_to(constant, (channels,))
        values[field] = full[blocks.start * memory.width : blocks.stop * memory.width]
    return pack_parameters(memory.element, memory.width, len(blocks), values)


def _tables(job: NestJob, constants: Constants, memory: Memory, read: str, blocks: range | None) -> bytes:
    return pack_tables(memory, _values(job, constants, read), blocks)


def _values(job: NestJob, constants: Constants, read: str) -> NDArray[Any]:
    """The values of a constant that a nest reads: of its channels, which may be a part of the constant's."""
    nest = job.cover.nest
    access = nest.reads[read]
    where = tuple(_place(nest, access, dimension) for dimension in range(len(access.index)))
    return np.asarray(constants[access.tensor][where])


def _place(nest: Nest, access: Access, dimension: int) -> slice | int:
    """Where a nest reads along a dimension of a constant; all along one that no loop names alone, as a table's."""
    index = access.index[dimension]
    if not index.terms:
        return index.constant
    places = index_range(nest, access, dimension)
    return slice(places.start, places.stop)


def _slot(operand: Operand, parameters: Parameters) -> str:
    """Under which an operand's last parameters are remembered."""
    return f"{PARAMETER_SLOT}{operand.name}.{sorted(parameters.fields.items(), key=str)}"
