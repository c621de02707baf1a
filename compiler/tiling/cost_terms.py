"""What the analytic model of a nest's cycles rests on: its tiles, the loads of their operands, and what is around it.

Everything is counted for all candidate tiles at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import assert_never

import numpy as np

from tilewright.compiler.nest.space import NO_LOOP
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
from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.templates.dma import burst_cycles, ports_of
from tilewright.compiler.tiling.shape import (
    Box,
    Cycles,
    Flags,
    NestShape,
    Sizes,
    all_weight_tiles,
    box_read,
    extents,
    is_brought_already,
    reach,
    tables,
    words_of_pixels,
)
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import moved_word_bytes


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


# -- loads from DRAM ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """The cost of an operand's loads: all cycles, those before the first product, and instructions.

    `waits`: of all cycles, those in which no beat comes, because as many bursts as may be are under way. `once`: those
    of what all tiles read, which comes before the first of them.
    """

    cycles: Cycles | float = 0.0
    first: Cycles | float = 0.0
    instructions: Sizes | int = 0
    waits: Cycles | float = 0.0
    once: Cycles | float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.cycles + other.cycles,
            self.first + other.first,
            self.instructions + other.instructions,
            self.waits + other.waits,
            self.once + other.once,
        )


def operand_load(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts, index: int,
    operand: Operand, around: Surroundings,
) -> Load:  # fmt: skip
    """What a step's operand costs to load: as often as a tile needs it and the tile before had another."""
    step, space = shape.cover.steps[index], shape.cover.space
    word_bytes, bus = machine.memories[operand.memory].word_bytes, load_bytes(machine, operand)
    match step.inputs[operand.name]:
        case ConstantMatrix() | ComputedMatrix():
            sums = count.partial_sums
            again = np.where(points_outer, count.lanes * sums > 1, sums > 1)
            all_bytes = all_weight_tiles(shape) * operand.block * word_bytes
            matrices = prod(count.extent[loop] for loop in shape.choosing)
            first = around.exposed_weights * reach(shape, sizes)[1] * operand.block * word_bytes / bus
            times = matrices * np.minimum(count.points, around.arrays(machine))  # once for each that reads them
            return Load(np.where(again, count.points, times) * all_bytes / bus, first, count.all)
        case Parameters() | TableBinding() | TensorRead() if is_brought_already(shape, index, operand):
            return Load()
        case TableBinding(read):
            entries = operand.block * tables(shape, read, count.extent[space.lane] * shape.unit)
            once = entries * word_bytes / bus
            return Load(np.where(points_outer & (count.lanes > 1), count.points, 1) * once, once=once)
        case Parameters() as parameters if parameters.is_the_same_for_all(shape.cover.nest.reads):
            return Load(np.where(points_outer, count.points, 1) * word_bytes / bus)
        case Parameters() if (words := words_of_pixels(shape, index, operand, sizes)) is not None:
            return Load(count.results * words * word_bytes / bus)
        case Parameters():
            blocks = count.extent[space.across if operand.name in step.across else space.lane]
            return Load(np.where(points_outer, count.points, 1) * blocks * word_bytes / bus)
        case TensorRead(read) if read in shape.off_chip:
            whole = _box_load(machine, operand, box_read(shape, step, read, sizes))
            box = _mean_box_load(shape, machine, step, operand, read, count, sizes) if around.is_uneven else whole
            times = np.asarray(box_loads(shape, step, count, points_outer), np.float64)
            if not step.is_dot:
                times = times * (count.extent[space.lane] / (count.lanes * sizes[space.lane]))
            return Load(times * box.cycles, whole.cycles, count.all, times * box.waits)
        case TensorRead() | Intermediate() | Idle():
            return Load()
        case other:
            assert_never(other)


def _mean_box_load(
    shape: NestShape, machine: Machine, step: Step, operand: Operand, read: str, count: TileCounts,
    sizes: Mapping[str, Sizes],
) -> Load:  # fmt: skip
    """The cost of a box, on average over all tiles: the last ones along a loop are smaller if they are not even.

    What is beyond the tensor's bounds is not loaded.
    """
    batch, row, column = shape.cover.space.points
    mean: dict[str, Cycles] = {k: count.extent[k] / -(-count.extent[k] // sizes[k]) for k in (batch, row)}
    whole, left = np.divmod(count.extent[column], sizes[column])
    at_end = np.minimum(left, 1)  # tiles
    border, total = shape.borders[read], np.zeros(whole.shape)
    least: Cycles = np.full(whole.shape, np.inf)
    for tiles, size in ((whole, sizes[column]), (at_end, np.maximum(left, 1))):
        box = box_read(shape, step, read, {**sizes, **mean, column: size})
        rows = np.maximum(box.rows - (border.top + border.bottom) / count.along[row], 1)
        columns = np.maximum(box.columns - (border.left + border.right) / count.along[column], 1)
        each = _box_load(machine, operand, replace(box, rows=rows, columns=columns))
        total = total + tiles * each.cycles
        least = np.minimum(least, np.where(tiles > 0, each.waits, np.inf))
    return Load(total / (whole + at_end), waits=least)


def _box_load(machine: Machine, operand: Operand, box: Box) -> Load:
    """The cost of a box: its beats, or what its bursts take.

    Rows of pixels that are not as long as the tensor's are runs by themselves, each a burst or more. Of bursts, only so
    many are under way at a time.
    """
    format = find_transfers(machine).load(operand.memory)
    beats = box.words * moved_word_bytes(format, machine) / machine.dram.bus_bytes
    cycles = burst_cycles(machine, format, beats, box.runs)
    return Load(cycles, waits=cycles - beats / ports_of(machine, format))


def load_bytes(machine: Machine, operand: Operand) -> int:
    """Bytes in a cycle that loads of an operand's memory can bring, through all their ports."""
    load = find_transfers(machine).loads.get(operand.memory) if machine.dram.ports > 1 else None
    return machine.dram.bus_bytes * (1 if load is None else ports_of(machine, load))


def box_loads(shape: NestShape, step: Step, count: TileCounts, points_outer: Flags) -> Sizes:
    """How often a tile of a tensor is loaded. A tile that the next tile of the nest also reads is kept."""
    if not step.is_dot:
        return count.results
    if shape.weights is not None and shape.weights.reach(1)[0] < shape.weights.reach(shape.weights.units)[0]:
        return count.all  # each tile reads channels of its own
    once_each = np.where(points_outer | (count.points == 1), count.points, count.all)
    return np.where(count.partial_sums == 1, once_each, count.all)
