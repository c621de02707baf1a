"""The cycles that a nest is expected to take, by an analytic model, for all candidate tiles at once.

The model's unit is cycles of each engine: vectors through the array, beats and bursts on the bus, words through the
vector engine. Engines overlap when two tiles fit side by side: a nest takes as long as its slowest engine, plus what
the others do before its first tile and after its last.

How long tiles take that pass several engines one after the other, each engine at work on another tile, is a flow shop
in the theory of schedules. It takes as long as its longest path from the first tile on the first engine to the last
tile on the last one, where each step is to the next tile of an engine or to a tile's next engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.window_sums import READS, window_loop
from tilewright.compiler.templates.table import facet_of
from tilewright.compiler.tiling.cost_terms import (
    Load,
    Surroundings,
    TileCounts,
    operand_load,
    tile_counts,
    tiles_of_points,
)
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


# -- tiles that pass several engines -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileShare:
    """A tile: the share of a nest's results that it has, and the share of those after it."""

    own: Cycles
    after: Cycles


@dataclass(frozen=True, slots=True)
class Shares:
    """The first tile, which is a whole one, the last whole one, the one before the last, and the last one."""

    first: Cycles
    turns: tuple[TileShare, ...]
    last: Cycles


@dataclass(frozen=True, slots=True)
class EngineShare:
    """The cycles of an engine: all, and what it takes for the first tile if that is not its share of all.

    A tile is divided into so many `parts`, and the next stage begins when it has the first of them. So many tiles are
    `beside` each other, on average, on engines that share the work.
    """

    all: Cycles
    parts: Sizes | int = 1
    first: Cycles | float | None = None
    beside: Cycles | int = 1

    def of(self, share: Cycles) -> Cycles:
        return self.all * self.beside * share / self.parts


def pipelined(stages: Sequence[EngineShare], shares: Shares) -> Cycles:
    """The cycles of stages that tiles pass one after the other.

    The longest path is along one stage nearly to its end, perhaps along a second one for the last tiles, and elsewhere
    through the stages with the first tile or the last.
    """
    last = [stage.of(shares.last) for stage in stages]
    longest, begins = np.zeros(shares.last.shape), np.zeros(shares.last.shape)
    for position, stage in enumerate(stages):
        longest = np.maximum(longest, begins + stage.all + sum(last[position + 1 :]))
        for turn in shares.turns:
            path = begins + stage.all * (1 - turn.after)
            for other in range(position + 1, len(stages)):
                path = path + stages[other].of(turn.own)
                rest = stages[other].all * turn.after + sum(last[other + 1 :])
                longest = np.maximum(longest, path + rest)
        begins = begins + (stage.of(shares.first) if stage.first is None else stage.first)
    return longest


def even_shares(count: TileCounts) -> Shares:
    """The shares where each tile has as much as the others."""
    share = 1 / count.results
    return Shares(share, (), share)


def shares_of(shape: NestShape, count: TileCounts, sizes: Mapping[str, Sizes], points_outer: Flags) -> Shares:
    """The shares, with channels as the innermost of the loops over tiles or as the outermost."""
    space = shape.cover.space
    whole, last = {}, {}
    for loop in (*space.points, space.lane):
        extent = count.extent[loop]
        whole[loop] = np.minimum(sizes[loop], extent) / extent
        last[loop] = ((extent - 1) % sizes[loop] + 1) / extent
    inner, outer = (_turns(order, whole, last) for order in _orders(space.points, space.lane))
    turns = tuple(
        TileShare(np.where(points_outer, a.own, b.own), np.where(points_outer, a.after, b.after))
        for a, b in zip(inner, outer, strict=True)
    )
    return Shares(_product(whole), turns, _product(last))


def _orders(points: Sequence[str], lane: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Loops over tiles from the innermost on: with channels first, and with channels last."""
    return (lane, *reversed(points)), (*reversed(points), lane)


def _turns(order: Sequence[str], whole: Mapping[str, Cycles], last: Mapping[str, Cycles]) -> tuple[TileShare, ...]:
    """The last whole tile, and the one before the last: that is whole along the innermost loop with several tiles."""
    ones = np.ones_like(whole[order[0]])
    before, is_found, outside, after_whole = ones, ones < 1, ones, ones * 0
    for loop in reversed(order):
        after_whole = after_whole + np.where(last[loop] < whole[loop], last[loop] * outside, 0)
        outside = outside * whole[loop]
    for loop in order:
        is_it = ~is_found & (whole[loop] < 1)
        before = before * np.where(is_it, whole[loop], last[loop])
        is_found = is_found | is_it
    ending = _product(last)
    return TileShare(outside, after_whole), TileShare(np.where(is_found, before, 0), np.where(is_found, ending, 0))


def _product(shares: Mapping[str, Cycles]) -> Cycles:
    product: Cycles = np.multiply.reduce(list(shares.values()))
    return product
