"""The cycles that a nest is expected to take, by an analytic model, for all candidate tiles at once.

The model's unit is cycles of each engine: vectors through the array, beats and bursts on the bus, words through the
vector engine. Engines overlap when two tiles fit side by side (`flow.py`): a nest takes as long as its slowest engine,
plus what the others do before its first tile and after its last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.window_sums import READS, window_loop
from tilewright.compiler.templates.table import facet_of
from tilewright.compiler.tiling.flow import EngineShare, even_shares, pipelined, shares_of
from tilewright.compiler.tiling.loads import Load, operand_load
from tilewright.compiler.tiling.shape import (
    Cycles,
    Flags,
    NestShape,
    Sizes,
    all_weight_tiles,
    box_pixels,
    reach,
    vector_access,
)
from tilewright.compiler.tiling.surroundings import Surroundings
from tilewright.compiler.tiling.tile_counts import TileCounts, tile_counts, tiles_of_points
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import mma_write, vec_operands, vec_stages


@dataclass(frozen=True)
class ExpectedCycles:
    """The expected cycles of the whole nest for each candidate: with one tile at a time, with two and with three."""

    alone: Cycles
    double: Cycles
    triple: Cycles

    def where(self, is_double: Flags, is_triple: Flags) -> Cycles:
        """The cycles of each candidate, of which two, or three, tiles fit side by side."""
        return np.where(is_double, np.where(is_triple, self.triple, self.double), self.alone)


def expected_cycles(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts,
    around: Surroundings,
) -> ExpectedCycles:  # fmt: skip
    """Expected cycles of the whole nest for each candidate, of which there are so many tiles."""
    space = shape.cover.space
    vector, array = (np.zeros(count.all.shape, float) for _ in range(2))
    loaded = Load(instructions=count.all * (len(shape.cover.steps) + 1))
    for index, step in enumerate(shape.cover.steps):
        if step.is_dot:
            products = product_cycles(shape, step, count, sizes)
            array, vector = (array, vector + products) if step.computes_beside else (array + products, vector)
            if step.adding is not None:
                summed, added = _apart_cycles(shape, step, sizes, points_outer, count)
                array, vector = array + summed, vector + added
        else:
            vector = vector + step.words
        for operand in step.format.sources:
            loaded += operand_load(shape, machine, sizes, points_outer, count, index, operand, around)
    for within in shape.within:
        own = within.sizes(shape, sizes)
        products, inner = _cost_within(within.shape, machine, own, points_outer, around)
        array, loaded = array + products, loaded + inner
    after_others = sum(not step.is_dot for step in shape.cover.steps) - 1
    vector = vector + count.results * max(0, after_others) * (vec_operands(machine) + vec_stages(machine))
    storing = store_cycles(shape, machine, count)
    fetch = loaded.instructions * machine.longest_instruction_bytes / machine.dram.bus_bytes
    loading = loaded.cycles + np.maximum(0, fetch - loaded.waits)
    serial = machine.dram.latency_cycles + mma_write(machine.array) + vec_operands(machine) + vec_stages(machine)
    latency = count.all * around.tile_cycles + serial + around.traffic * loading
    if around.is_beside and shape.cover.dot is None and not space.reduce:
        latency = latency + vector / count.points  # the array waits while the layers beside have none of its tiles
    beside = arrays_at_work(machine, around, count.results)
    shares = shares_of(shape, count, sizes, points_outer) if around.is_uneven else even_shares(count)
    ends = [EngineShare(array / beside, count.partial_sums, beside=beside), EngineShare(vector), EngineShare(storing)]
    uneven = _uneven_cycles(shape, sizes, count, array / beside)
    loads = [EngineShare(loading - loaded.once + waiting, count.partial_sums, loaded.first) for waiting in (uneven, 0)]
    double, triple = (np.maximum(pipelined([each, *ends], shares), loading) + latency for each in loads)
    return ExpectedCycles(loading + vector + array + storing + count.all * serial + latency, double, triple)


def arrays_at_work(machine: Machine, around: Surroundings, tiles: Sizes) -> Cycles | int:
    """On how many arrays so many tiles are computed at the same time, on average: three tiles on two arrays → 1.5."""
    arrays = around.arrays(machine)
    return 1 if arrays == 1 else tiles / -(-tiles // arrays)


def _cost_within(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, around: Surroundings
) -> tuple[Sizes, Load]:
    """Vectors through the array and loads of a product within its reader, whose own tiles have these sizes."""
    count, (step,) = tile_counts(shape, sizes), shape.cover.steps
    total = Load(instructions=count.all)
    for operand in step.format.sources:
        total += operand_load(shape, machine, sizes, points_outer, count, 0, operand, around)
    return product_cycles(shape, step, count, sizes), total


def _uneven_cycles(shape: NestShape, sizes: Mapping[str, Sizes], count: TileCounts, array: Cycles) -> Cycles:
    """What the bus waits where the last partial sum is smaller than the others, and no third tile fits.

    Of two places for weights, one is filled while the array works on the other. Filled sooner, it waits for the array.
    Example: 18 summed blocks in sums of 5, 5, 5 and 3: for each tile of results but the last, the time of two blocks.
    """
    if shape.weights is None or shape.summed == NO_LOOP:
        return np.zeros_like(array)
    size = sizes[shape.summed]
    blocks = reach(shape, {**sizes, shape.summed: np.full_like(size, count.extent[shape.summed])})[0]
    missing = -(-blocks // size) * size - blocks
    cycles: Cycles = array * missing / blocks * (1 - 1 / count.results)
    return cycles


def product_cycles(shape: NestShape, step: Step, count: TileCounts, sizes: Mapping[str, Sizes]) -> Sizes:
    """What a product's engine is busy: through an array, of each weight tile all pixels, or as many as the next takes.

    The last tile along a loop has what the others leave.
    """
    vectors: Sizes = np.zeros_like(count.points)
    for tiles, pixels in tiles_of_points(shape, count, sizes):
        vectors = vectors + tiles * facet_of(step.format.engine.template).product_cycles(step.format, pixels)
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


def store_cycles(shape: NestShape, machine: Machine, count: TileCounts) -> Cycles:
    if not shape.stores_result:
        return np.zeros(count.all.shape)
    space, word_bytes = shape.cover.space, machine.memories[shape.cover.result_memory].word_bytes
    words = space.pixels * count.extent[space.lane] * shape.unit
    return np.full(count.all.shape, words * word_bytes / machine.dram.bus_bytes)
