"""What the operands of a nest cost to load from DRAM, for all candidate tiles at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, assert_never

import numpy as np

from tilewright.compiler.select.bindings import (
    ComputedMatrix,
    ConstantMatrix,
    Idle,
    Intermediate,
    Parameters,
    Table,
    TensorRead,
)
from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.tile.footprint import dma_word_bytes
from tilewright.compiler.tiling.shape import (
    NestShape,
    Sizes,
    all_weight_tiles,
    box_runs,
    box_words,
    is_brought_already,
    reach,
    tables,
    words_of_pixels,
)
from tilewright.compiler.tiling.surroundings import Surroundings
from tilewright.compiler.tiling.tile_counts import Cycles, Flags, TileCounts
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS, dma_round_trip


@dataclass(frozen=True)
class Load:
    """The cost of an operand's loads: all cycles of the bus, the cycles before the first product, and instructions."""

    cycles: Cycles | float = 0.0
    first: Cycles | float = 0.0
    instructions: Sizes | int = 0


def operand_load(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts, index: int,
    operand: Operand, around: Surroundings,
) -> Load:  # fmt: skip
    """What a step's operand costs to load: as often as a tile needs it and the tile before had another."""
    step, space = shape.cover.steps[index], shape.cover.space
    word_bytes, bus = machine.memories[operand.memory].word_bytes, machine.dram.bus_bytes
    match step.inputs[operand.name]:
        case ConstantMatrix() | ComputedMatrix():
            sums = count.partial_sums
            again = np.where(points_outer, count.lanes * sums > 1, sums > 1)
            all_bytes = all_weight_tiles(shape) * operand.block * word_bytes
            matrices = prod(count.extent[loop] for loop in shape.choosing)
            first = around.exposed_weights * reach(shape, sizes)[1] * operand.block * word_bytes / bus
            return Load(np.where(again, count.points, matrices) * all_bytes / bus, first, count.all)
        case Parameters() | Table() | TensorRead() if is_brought_already(shape, index, operand):
            return Load()
        case Table(read):
            entries = operand.block * tables(shape, read, count.extent[space.lane] * shape.unit)
            return Load(np.where(points_outer & (count.lanes > 1), count.points, 1) * entries * word_bytes / bus)
        case Parameters() as parameters if parameters.is_the_same_for_all(shape.cover.nest.reads):
            return Load(np.where(points_outer, count.points, 1) * word_bytes / bus)
        case Parameters() if (words := words_of_pixels(shape, index, operand, sizes)) is not None:
            return Load(count.results * words * word_bytes / bus)
        case Parameters():
            blocks = count.extent[space.across if operand.name in step.across else space.lane]
            return Load(np.where(points_outer, count.points, 1) * blocks * word_bytes / bus)
        case TensorRead(read) if read in shape.off_chip:
            first = _box_cycles(shape, machine, step, operand, read, sizes)
            box = _mean_box_cycles(shape, machine, step, operand, read, count, sizes) if around.is_uneven else first
            if not step.is_dot:
                box = box * (count.extent[space.lane] / (count.lanes * sizes[space.lane]))
            return Load(_box_loads(shape, step, count, points_outer) * box, first, count.all)
        case TensorRead() | Intermediate() | Idle():
            return Load()
        case other:
            assert_never(other)


def _mean_box_cycles(
    shape: NestShape, machine: Machine, step: Step, operand: Operand, read: str, count: TileCounts,
    sizes: Mapping[str, Sizes],
) -> Cycles:  # fmt: skip
    """The cycles of a box, on average over all tiles: the last ones along a loop are smaller if they are not even."""
    batch, row, column = shape.cover.space.points
    mean: dict[str, Any] = {k: count.extent[k] / -(-count.extent[k] // sizes[k]) for k in (batch, row)}
    whole, left = np.divmod(count.extent[column], sizes[column])
    at_end = np.minimum(left, 1)  # tiles
    cycles = _box_cycles(shape, machine, step, operand, read, {**sizes, **mean}) * whole
    smaller = {**sizes, **mean, column: np.maximum(left, 1)}
    cycles = cycles + _box_cycles(shape, machine, step, operand, read, smaller) * at_end
    return cycles / (whole + at_end)


def _box_cycles(
    shape: NestShape, machine: Machine, step: Step, operand: Operand, read: str, sizes: Mapping[str, Sizes]
) -> Cycles:
    """Cycles to load the box that a tile reads of a tensor: its beats, or what its bursts take.

    Rows of pixels that are not as long as the tensor's are runs by themselves, each a burst or more. Of bursts, only so
    many are under way at a time.
    """
    format = find_transfers(machine).load(operand.memory)
    words, runs = box_words(shape, step, read, sizes), box_runs(shape, step, read, sizes)
    beats: Cycles = words * dma_word_bytes(machine, format) / machine.dram.bus_bytes
    bursts = runs * np.ceil(beats / runs / BURST_BEATS)
    return np.maximum(beats, bursts * dma_round_trip(machine) / machine.flights[format.engine].bursts)


def _box_loads(shape: NestShape, step: Step, count: TileCounts, points_outer: Flags) -> Sizes:
    """How often a tile of a tensor is loaded. A tile that the next tile of the nest also reads is kept."""
    if not step.is_dot:
        return count.results
    if shape.weights is not None and shape.weights.reach(1)[0] < shape.weights.reach(shape.weights.units)[0]:
        return count.all  # each tile reads channels of its own
    once_each = np.where(points_outer | (count.points == 1), count.points, count.all)
    return np.where(count.partial_sums == 1, once_each, count.all)
