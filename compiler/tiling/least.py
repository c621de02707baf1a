"""The least that a nest takes alone with each of its tilings: never above the exact cycles.

The busiest engine does all of its work, and does it between the first word from DRAM and the response to the last one
that is stored. What the analytic model says of a tiling may be more than it takes; this is not. So tilings of which
this is no less than what another one takes exactly need not be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.bindings import ComputedMatrix, ConstantMatrix, TableBinding, TensorRead
from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.tiling.cost import product_cycles, store_cycles
from tilewright.compiler.tiling.cost_terms import ALONE, TileCounts, box_loads, load_bytes, operand_load, tile_counts
from tilewright.compiler.tiling.shape import (
    Cycles,
    Flags,
    NestShape,
    Sizes,
    all_weight_tiles,
    box_read,
    extents,
    is_brought_already,
    reach,
)
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.engine import Direction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import moved_word_bytes
from tilewright.isa.timing import dma_round_trip


def least_cycles(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags) -> Cycles:
    """The cycles that each candidate takes at the least, from an idle machine on.

    What a nest computes within it is left out, and so are parameters: they may be loaded once for several tiles.
    """
    count = tile_counts(shape, sizes)
    array, vector = (np.zeros(count.all.shape) for _ in range(2))
    for step in shape.cover.steps:
        if step.is_dot and not step.computes_beside:
            array = array + product_cycles(shape, step, count, sizes)
        elif step.is_dot:
            vector = vector + product_cycles(shape, step, count, sizes)
        else:
            vector = vector + step.words
    brings = shape.cover.dot is not None or bool(shape.off_chip)
    before = dma_round_trip(machine) if brings else 0
    after = machine.dram.latency_cycles if shape.stores_result else 0
    through = shape.cover.dot.product_latency if shape.cover.dot is not None else 0
    loaded = _beats(shape, machine, sizes, points_outer, count) / len(machine.ports(Direction.IN))
    stored = store_cycles(shape, machine, count)
    busiest = np.maximum.reduce([array + through, vector, loaded, stored])
    least: Cycles = before + busiest + after
    return least


def _beats(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: Flags, count: TileCounts
) -> Cycles:
    """Beats of what tiles bring, through all ports together, without what bursts and instructions add."""
    beats = np.zeros(count.all.shape)
    for index, step in enumerate(shape.cover.steps):
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if isinstance(bound, ConstantMatrix | ComputedMatrix) and _has_zeros(shape):
                words = all_weight_tiles(shape) * operand.block
                beats = beats + words * machine.memories[operand.memory].word_bytes / machine.dram.bus_bytes
            elif isinstance(bound, ConstantMatrix | ComputedMatrix | TableBinding):
                load = operand_load(shape, machine, sizes, points_outer, count, index, operand, ALONE)
                beats = beats + load.cycles * (load_bytes(machine, operand) / machine.dram.bus_bytes)
            elif isinstance(bound, TensorRead) and bound.read in shape.off_chip:
                if not is_brought_already(shape, index, operand):
                    beats = beats + _tensor_beats(shape, machine, step, bound.read, operand, sizes, points_outer, count)
    return beats


def _has_zeros(shape: NestShape) -> bool:
    """Whether weight tiles are left out. Some results then have fewer partial sums, and may keep their weights."""
    assert shape.weights is not None
    extent = extents(shape)
    across = shape.weights.reach(shape.weights.units)[0] if shape.summed != NO_LOOP else 1
    return all_weight_tiles(shape) < across * extent[shape.cover.space.lane] * prod(extent[tap] for tap in shape.taps)


def _tensor_beats(
    shape: NestShape, machine: Machine, step: Step, read: str, operand: Operand, sizes: Mapping[str, Sizes],
    points_outer: Flags, count: TileCounts,
) -> Cycles:  # fmt: skip
    """Beats of the boxes that tiles read of a tensor.

    What is beyond the tensor's bounds is not loaded: as much as that may be is taken off each box.
    """
    mean = {loop: count.extent[loop] / count.along[loop] for loop in shape.cover.space.points}
    box, border = box_read(shape, step, read, {**sizes, **mean}), shape.borders[read]
    rows = np.maximum(0, box.rows - border.top - border.bottom)
    columns = np.maximum(0, box.columns - border.left - border.right)
    times: Cycles = np.asarray(box_loads(shape, step, count, points_outer), np.float64)
    blocks: Cycles = np.asarray(box.blocks, np.float64)
    if step.is_dot and shape.summed != NO_LOOP:  # the last partial sum may have fewer blocks than the others
        whole = reach(shape, {**sizes, shape.summed: np.full_like(count.lanes, count.extent[shape.summed])})[0]
        blocks = shape.group * whole / -(-whole // sizes[shape.summed])
    if not step.is_dot:
        lane = shape.cover.space.lane
        times = times * (count.extent[lane] / (count.lanes * sizes[lane]))
    word = moved_word_bytes(find_transfers(machine).load(operand.memory), machine)
    beats: Cycles = times * blocks * box.images * rows * columns * word / machine.dram.bus_bytes
    return beats
