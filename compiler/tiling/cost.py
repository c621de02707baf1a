"""The cycles that a nest is expected to take, by an analytic model, for all candidate tiles at once.

The model's unit is cycles of each engine: vectors through the array, bytes over the bus, words through the vector
engine. Engines overlap when two tiles fit side by side, so a nest takes as long as its slowest engine, plus one tile's
worth of all the others, which nothing hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.space import NO_LOOP
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
from tilewright.compiler.select.window_sums import READS, window_loop
from tilewright.compiler.tiling.shape import (
    NestShape,
    Sizes,
    all_weight_tiles,
    box_pixels,
    box_words,
    extents,
    is_brought_already,
    reach,
    tables,
    vector_access,
    words_of_pixels,
)
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import MMA_UPDATE, VEC_OPERANDS, mma_write, vec_stages

Cycles = NDArray[np.float64]
Flags = NDArray[np.bool_]
"""One entry for each candidate."""

TILE_CYCLES = 8
"""The cost of a tile in addition to its work, because its instructions start one after the other."""

TRAFFIC = 0.05
"""The cost of a cycle of loading that other engines hide. So of two equal tilings, the one that loads less wins."""

HIDDEN_WEIGHTS = 0.5
"""The share of the time for loading the first weights that the previous layer does not hide."""


@dataclass(frozen=True)
class TileCounts:
    """How many tiles there are: over the pixels, over the channels of the result, and partial sums of each."""

    extent: Mapping[str, int]
    points: Sizes
    lanes: Sizes
    partial_sums: Sizes

    @property
    def results(self) -> Sizes:
        return self.points * self.lanes

    @property
    def all(self) -> Sizes:
        return self.points * self.lanes * self.partial_sums


@dataclass(frozen=True)
class _Load:
    """The cost of an operand's loads: all cycles of the bus, the cycles before the first product, and instructions."""

    cycles: Cycles | float = 0.0
    first: Cycles | float = 0.0
    instructions: Sizes | int = 0


@dataclass(frozen=True)
class Expected:
    """The expected cycles of the whole nest for each candidate: with one tile at a time, with two and with three."""

    alone: Cycles
    double: Cycles
    triple: Cycles

    def where(self, is_double: Flags, is_triple: Flags) -> Cycles:
        """The cycles of each candidate, of which two, or three, tiles fit side by side."""
        return np.where(is_double, np.where(is_triple, self.triple, self.double), self.alone)


def expected_cycles(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags) -> Expected:
    """Expected cycles of the whole nest for each candidate."""
    count, space = tile_counts(shape, sizes), shape.cover.space
    load, vec, mma = (np.zeros(count.all.shape, float) for _ in range(3))
    first = np.zeros(count.all.shape, float)  # what must be there before the first product
    instructions = count.all * (len(shape.cover.steps) + 1)
    for index, step in enumerate(shape.cover.steps):
        if step.is_dot:
            mma = mma + _product_cycles(shape, machine, step, count)
            if step.adding is not None:
                summed, added = _apart_cycles(shape, step, sizes, points_outer, count)
                mma, vec = mma + summed, vec + added
        else:
            vec = vec + step.words
        for operand in step.format.sources:
            loaded = _operand_load(shape, machine, sizes, points_outer, count, index, operand)
            load, first = load + loaded.cycles, first + loaded.first
            instructions = instructions + loaded.instructions
    for within in shape.within:
        own = within.sizes(shape, sizes)
        products, loaded = _cost_within(within.shape, machine, own, points_outer)
        mma, load, first = mma + products, load + loaded.cycles, first + loaded.first
        instructions = instructions + tile_counts(within.shape, own).all + loaded.instructions
    after_others = sum(not step.is_dot for step in shape.cover.steps) - 1
    vec = vec + count.results * max(0, after_others) * (VEC_OPERANDS + vec_stages(machine))
    store = _store_cycles(shape, machine, count)
    load = load + instructions * machine.instruction_bytes / machine.dram.bus_bytes
    total = load + vec + mma + store
    slowest = np.maximum(store, np.maximum(mma, vec))
    is_loading = load > slowest
    ends = (vec + store) / count.results + mma / count.all
    ends = ends + np.where(is_loading, 0, first - slowest / np.where(mma >= slowest, count.all, count.results))
    if shape.cover.dot is None and not space.reduce:
        ends = ends + vec / count.points  # the array waits while the layers beside have none of its tiles
    uneven = np.where(is_loading, _uneven_cycles(shape, sizes, count, mma), 0)
    serial = machine.dram.latency_cycles + mma_write(machine) + VEC_OPERANDS + vec_stages(machine)
    latency = count.all * TILE_CYCLES + serial + TRAFFIC * load
    double, triple = (np.maximum(slowest, load + waiting) + ends + latency for waiting in (uneven, 0))
    return Expected(total + count.all * serial + latency, double, triple)


def _cost_within(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags
) -> tuple[Sizes, _Load]:
    """Vectors through the array and loads of a product within its reader, whose own tiles have these sizes."""
    count, (step,) = tile_counts(shape, sizes), shape.cover.steps
    total = _Load()
    for operand in step.format.sources:
        loaded = _operand_load(shape, machine, sizes, points_outer, count, 0, operand)
        total = _Load(
            total.cycles + loaded.cycles, total.first + loaded.first, total.instructions + loaded.instructions
        )
    return _product_cycles(shape, machine, step, count), total


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
    return TileCounts(extent, counts[space.batch] * counts[space.row] * counts[space.column], lanes, partial_sums)


def _uneven_cycles(shape: NestShape, sizes: Mapping[str, Sizes], count: TileCounts, mma: Cycles) -> Cycles:
    """What the bus waits where the last partial sum is smaller than the others, and no third tile fits.

    Of two places for weights, one is filled while the array works on the other. Filled sooner, it waits for the array.
    Example: 18 summed blocks in sums of 5, 5, 5 and 3: for each tile of results but the last, the time of two blocks.
    """
    if shape.weights is None or shape.summed == NO_LOOP:
        return np.zeros_like(mma)
    size = sizes[shape.summed]
    blocks = reach(shape, {**sizes, shape.summed: np.full_like(size, count.extent[shape.summed])})[0]
    missing = -(-blocks // size) * size - blocks
    cycles: Cycles = mma * missing / blocks * (1 - 1 / count.results)
    return cycles


def _product_cycles(shape: NestShape, machine: Machine, step: Step, count: TileCounts) -> Sizes:
    """Vectors through the array: of each weight tile all pixels, or as many as the next tile takes to come."""
    vectors = np.maximum(shape.cover.space.pixels, count.points * max(machine.rows, MMA_UPDATE))
    within = 0 if step.adding is not None else len(step.corrections)
    return vectors * all_weight_tiles(shape) * (1 + within)


def _apart_cycles(
    shape: NestShape, step: Step, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts
) -> tuple[Sizes, Sizes]:
    """Vectors through the array and additions, where a product's numbers are summed apart from it.

    Tiles of the same pixels that follow each other share these sums.
    """
    space, access = shape.cover.space, vector_access(shape, step)
    batches, rows, columns = box_pixels(access, sizes)
    tiles = np.where(points_outer, count.points, count.results) * count.partial_sums
    across = sizes[window_loop(access.index[COLUMN], space.column)]
    down = sizes[window_loop(access.index[ROW], space.row)]
    points = sizes[space.batch] * sizes[space.row] * sizes[space.column]
    vectors = batches * rows * columns * sizes[shape.summed] * len(step.corrections)
    window = batches * rows * sizes[space.column] * (across - 1) + points * (down - 1 + (count.partial_sums > 1))
    added = tiles * window + space.pixels * count.extent[space.lane] * shape.unit
    return tiles * vectors, READS * added


def _operand_load(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts, index: int,
    operand: Operand,
) -> _Load:  # fmt: skip
    """What a step's operand costs to load: as often as a tile needs it and the tile before had another."""
    step, space = shape.cover.steps[index], shape.cover.space
    word_bytes, bus = machine.memories[operand.memory].word_bytes, machine.dram.bus_bytes
    match step.inputs[operand.name]:
        case ConstantMatrix() | ComputedMatrix():
            sums = count.partial_sums
            again = np.where(points_outer, count.lanes * sums > 1, sums > 1)
            all_bytes = all_weight_tiles(shape) * operand.block * word_bytes
            matrices = prod(count.extent[loop] for loop in shape.choosing)
            first = HIDDEN_WEIGHTS * reach(shape, sizes)[1] * operand.block * word_bytes / bus
            return _Load(np.where(again, count.points, matrices) * all_bytes / bus, first, count.all)
        case Parameters() | Table() | TensorRead() if is_brought_already(shape, index, operand):
            return _Load()
        case Table(read):
            entries = operand.block * tables(shape, read, count.extent[space.lane] * shape.unit)
            return _Load(np.where(points_outer & (count.lanes > 1), count.points, 1) * entries * word_bytes / bus)
        case Parameters() as parameters if parameters.is_the_same_for_all(shape.cover.nest.reads):
            return _Load(np.where(points_outer, count.points, 1) * word_bytes / bus)
        case Parameters() if (words := words_of_pixels(shape, index, operand, sizes)) is not None:
            return _Load(count.results * words * word_bytes / bus)
        case Parameters():
            blocks = count.extent[space.across if operand.name in step.across else space.lane]
            return _Load(np.where(points_outer, count.points, 1) * blocks * word_bytes / bus)
        case TensorRead(read) if read in shape.off_chip:
            box = box_words(shape, step, read, sizes) * word_bytes / bus
            return _Load(_box_loads(shape, step, count, points_outer) * box, box, count.all)
        case TensorRead() | Intermediate() | Idle():
            return _Load()
        case other:
            assert_never(other)


def _box_loads(shape: NestShape, step: Step, count: TileCounts, points_outer: Flags) -> Sizes:
    """How often a tile of a tensor is loaded. A tile that the next tile of the nest also reads is kept."""
    if not step.is_dot:
        return count.results
    if shape.weights is not None and shape.weights.reach(1)[0] < shape.weights.reach(shape.weights.units)[0]:
        return count.all  # each tile reads channels of its own
    once_each = np.where(points_outer | (count.points == 1), count.points, count.all)
    return np.where(count.partial_sums == 1, once_each, count.all)


def _store_cycles(shape: NestShape, machine: Machine, count: TileCounts) -> float:
    if not shape.stores_result:
        return 0.0
    space, word_bytes = shape.cover.space, machine.memories[shape.cover.result_memory].word_bytes
    return space.pixels * count.extent[space.lane] * shape.unit * word_bytes / machine.dram.bus_bytes
