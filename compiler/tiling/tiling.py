"""Tile sizes of a nest: all candidates are costed at once by an analytic model, and the cheapest that fits is taken.

The model's unit is cycles of each engine: vectors through the array, bytes over the bus, words through the vector
engine. Engines overlap when two tiles fit side by side, so a nest takes as long as its slowest engine, plus one tile's
worth of all the others, which nothing hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import TooSmall
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.nest.space import NO_LOOP, describe
from tilewright.compiler.remedy import larger_memory
from tilewright.compiler.select.cover import (
    Bound,
    Cover,
    Intermediate,
    Parameters,
    Step,
    Table,
    TensorRead,
    TensorTiles,
    WeightTiles,
)
from tilewright.compiler.tiling.weight_tiles import WeightTiles as CutWeights
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.timing import MMA_UPDATE, mma_write, vec_results

Sizes = NDArray[np.int64]
"""One entry for each candidate."""

TILE_CYCLES = 8
"""What a tile costs beyond its work: its instructions start one after the other."""

TRAFFIC = 0.05
"""What a cycle of loading costs even where other engines hide it: of two equal tilings, the one that moves less."""

WIDE_WINDOW = 4
"""Taps of a window up to this one less are cut only if nothing else fits."""

HIDDEN_WEIGHTS = 0.5
"""Part of the first weights' load that the layer before does not hide."""


@dataclass(frozen=True)
class TilingOptions:
    """Choices of the tiler that a caller may change when a program does not fit.

    `budget_fraction`: how much of each memory one tile may take; with 0.5 the next tile fits beside it.
    `residency`: `auto` keeps tensors on chip between layers where they fit, `none` never does.
    """

    budget_fraction: float = 0.5
    residency: str = "auto"


@dataclass(frozen=True)
class NestShape:
    """What the tiler must know of a covered nest. `unit` is the lane blocks that results are computed in."""

    cover: Cover
    lanes: int
    unit: int
    summed: str  # the reduce loop over channels; NO_LOOP without one
    summed_step: int  # channels in a vector
    taps: tuple[str, ...]  # reduce loops that a tile may cut
    group: int  # lane blocks that lie together on chip
    weights: CutWeights | None  # of a product
    choosing: frozenset[str]  # loops over points that choose among matrices: a tile has one iteration of each
    off_chip: frozenset[str]  # reads that come from DRAM
    stores_result: bool  # the result leaves for DRAM
    result_on_chip: bool  # the result's buffer is a whole tensor on chip


@dataclass(frozen=True, slots=True)
class Room:
    """What tiles may take of a memory: `free` words in all, at most `longest` in one piece of aligned groups."""

    free: int
    longest: int
    alignment: int = 1

    @property
    def most(self) -> int:
        """What one tile may take if no second one need fit."""
        return min(self.free, self.longest)


def longest_buffer(memory: Memory, alignment: int) -> int:
    """The largest buffer of aligned groups that is sure to find a place: no group may lie across two banks."""
    if memory.banks == 1 or memory.bank_depth % alignment == 0:
        return memory.depth
    return max(0, memory.bank_depth - alignment + 1) // alignment * alignment


@dataclass(frozen=True)
class TileChoice:
    """Sizes of one tile by loop: iterations; of the lane loop, units; of the summed loop, vectors."""

    sizes: Mapping[str, int]
    points_outer: bool  # pixels are the outer loops and units the inner; otherwise the other way round
    is_double: bool  # two tiles fit side by side
    words: Mapping[str, int]  # by memory
    cycles: int  # what the model expects


def choose_tile(shape: NestShape, machine: Machine, room: Mapping[str, Room], options: TilingOptions) -> TileChoice:
    """The cheapest tile that fits the room in each memory.

    Raises TooSmall naming the layer, the memory, what is needed and what there is when nothing fits.
    """
    for cut_from in (WIDE_WINDOW, 2):
        sizes, points_outer = _candidates(shape, cut_from)
        words = _words(shape, machine, sizes)
        is_possible = _all_within(
            words, {m: min(2 * options.budget_fraction * r.free, r.most) for m, r in room.items()}
        )
        if not is_possible.any():
            is_possible = _all_within(words, {m: r.most for m, r in room.items()})
        if is_possible.any():
            break
    else:
        raise _too_small(shape, machine, room, words)
    is_double = _all_within(words, {m: min(options.budget_fraction * r.free, r.longest) for m, r in room.items()})
    cycles = _cycles(shape, machine, sizes, points_outer, is_double)
    best = int(np.argmin(np.where(is_possible, cycles, np.inf)))
    return TileChoice(
        {loop: int(size[best]) for loop, size in sizes.items()},
        bool(points_outer[best]),
        bool(is_double[best]),
        {memory: int(needed[best]) for memory, needed in words.items()},
        int(cycles[best]),
    )


def _all_within(words: Mapping[str, Sizes], limits: Mapping[str, float]) -> NDArray[np.bool_]:
    """The candidates whose words in every memory are within its limit."""
    return np.logical_and.reduce([needed <= limits[memory] for memory, needed in words.items()])


# -- candidates --------------------------------------------------------------------------------------------------------


def extents(shape: NestShape) -> dict[str, int]:
    """How far each loop goes, in the tiler's counts; loops that are never cut are included."""
    space = shape.cover.space
    extent = dict(space.trips)
    extent[space.lane] = -(-space.trips[space.lane] // (shape.unit * shape.lanes))
    if shape.summed != NO_LOOP:
        extent[shape.summed] = -(-space.trips[shape.summed] // shape.summed_step)
    if space.across != NO_LOOP:
        extent[space.across] = space.trips[space.across] // shape.lanes
    extent[NO_LOOP] = 1
    return extent


def _candidates(shape: NestShape, cut_from: int) -> tuple[dict[str, Sizes], NDArray[np.bool_]]:
    """All combinations of a few sizes for each loop, and both loop orders; taps are cut from an extent on."""
    space, extent = shape.cover.space, extents(shape)
    # Of equal candidates the first is taken: loops that are better left whole come first.
    choices = {loop: [extent[loop]] for loop in (NO_LOOP, *space.reduce)}
    for loop, most in ((space.column, 6), (shape.summed, 8), (space.batch, 6), (space.lane, 8), (space.row, 10)):
        choices[loop] = _even_parts(extent[loop], most) if loop != NO_LOOP else [1]
    choices |= {loop: [1] for loop in shape.choosing}
    if space.across != NO_LOOP:  # what is the same for all channels of a pixel is computed once
        choices[space.lane] = [extent[space.lane]]
    for tap in shape.taps:
        choices[tap] = [extent[tap]] if extent[tap] < cut_from else _even_parts(extent[tap], 4)
    grids = np.meshgrid(*(np.array(c, np.int64) for c in choices.values()), np.array([False, True]), indexing="ij")
    flat = [grid.ravel() for grid in grids]
    return dict(zip(choices, flat[:-1], strict=True)), flat[-1].astype(bool)


def _even_parts(extent: int, most: int) -> list[int]:
    """Tile sizes that cut an extent into 1, 2, 3, … even parts, at most `most` of them, 1 always among them."""
    parts = sorted({-(-extent // count) for count in range(1, extent + 1)}, reverse=True)
    if len(parts) <= most:
        return parts
    spread = np.unique(np.geomspace(1, len(parts), most).round().astype(int)) - 1
    return [parts[i] for i in spread]


# -- space -------------------------------------------------------------------------------------------------------------


def _words(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    """Words that one tile takes in each memory."""
    space = shape.cover.space
    points = sizes[space.batch] * sizes[space.row] * sizes[space.column]
    blocks = sizes[space.lane] * shape.unit
    zero = np.zeros_like(points)
    words: dict[str, Sizes] = {name: zero for name in machine.memories}
    for index, step in enumerate(shape.cover.steps):
        is_result = index == len(shape.cover.steps) - 1
        if not (is_result and shape.result_on_chip):
            memory = step.format.destination.memory
            is_one = step.is_uniform and not is_result
            words[memory] = words[memory] + points * (1 if is_one else _grouped(blocks, _result_group(shape, step)))
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            match bound:
                case Parameters() | Table() | TensorRead() if _is_there(shape, index, operand):
                    pass
                case Parameters():
                    count = sizes[space.across] if operand.name in step.across else blocks
                    words[operand.memory] = words[operand.memory] + count
                case Table(read):
                    words[operand.memory] = words[operand.memory] + operand.block * _tables(shape, read, blocks)
                case WeightTiles() | TensorTiles():
                    words[operand.memory] = words[operand.memory] + _reach(shape, sizes)[1] * operand.block
                    constants = sum(not correction.is_vector for correction in step.corrections)
                    words[operand.memory] = words[operand.memory] + constants * _reach(shape, sizes)[0] * operand.block
                case TensorRead(read):
                    if read in shape.off_chip:
                        words[operand.memory] = words[operand.memory] + _box_words(shape, step, read, sizes)
                    constants = sum(correction.is_vector for correction in step.corrections)
                    words[operand.memory] = words[operand.memory] + constants * operand.block
    return words


def _is_there(shape: NestShape, index: int, operand: Operand) -> bool:
    """Whether an earlier step of a nest across lanes reads the words of an operand as well."""
    steps = shape.cover.steps
    is_across, bound = operand.name in steps[index].across, steps[index].inputs[operand.name]
    if shape.cover.space.across == NO_LOOP:
        return False
    return any(
        _same_tensor(shape, source, bound)
        or (source == bound and (isinstance(bound, Table) or (name in earlier.across) == is_across))
        for earlier in steps[:index]
        for name, source in earlier.inputs.items()
    )


def _same_tensor(shape: NestShape, one: Bound, other: Bound) -> bool:
    """Whether two reads take the same pixels of a tensor; all channels are there, whichever loop walks over them."""
    if not isinstance(one, TensorRead) or not isinstance(other, TensorRead):
        return False
    a, b = (shape.cover.nest.reads[each.read] for each in (one, other))
    return a.tensor == b.tensor and [a.index[d] for d in (0, 2, 3)] == [b.index[d] for d in (0, 2, 3)]


def _result_group(shape: NestShape, step: Step) -> int:
    return step.format.destination.block if step.is_dot else shape.group


def _tables(shape: NestShape, read: str, blocks: Any) -> Any:
    """How many tables some lane blocks look up in: one for all, or one for each."""
    return blocks if any(index.terms for index in shape.cover.nest.reads[read].index) else 1


def _reach(shape: NestShape, sizes: Mapping[str, Sizes]) -> tuple[Sizes, Sizes]:
    """Of one part of a tile's sum: the vectors of summed channels that it reads, and its weight tiles."""
    assert shape.weights is not None
    units = sizes[shape.cover.space.lane]
    counts, positions = np.unique(units, return_inverse=True)
    across, tiles = np.array([shape.weights.reach(int(count)) for count in counts])[positions].T
    across = np.minimum(sizes[shape.summed], across) if shape.summed != NO_LOOP else across
    every = units * across
    for tap in shape.taps:
        every = every * sizes[tap]
    return across, np.minimum(every, tiles)


def _grouped(blocks: Sizes, group: int) -> Sizes:
    return -(-blocks // group) * group


def _box_words(shape: NestShape, step: Step, read: str, sizes: Mapping[str, Sizes]) -> Sizes:
    """Words of the box that one tile reads of a tensor."""
    access = shape.cover.nest.reads[read]
    across = shape.cover.space.across
    if step.is_dot:
        blocks = _reach(shape, sizes)[0] * shape.group
    elif access.index[1].terms and access.index[1].terms[0][0] == across:
        blocks = sizes[across]
    else:
        blocks = sizes[shape.cover.space.lane] * shape.unit
    extents_of = [box_extent(access, d, sizes) for d in (0, 2, 3)]
    return _grouped(np.asarray(blocks), shape.group) * extents_of[0] * extents_of[1] * extents_of[2]


def box_extent(access: Access, dimension: int, sizes: Mapping[str, Sizes]) -> Sizes:
    """How many indices of a dimension a tile reads, from the first to the last."""
    one: Sizes = np.asarray(1)
    for loop, by in access.index[dimension].terms:
        one = one + abs(by) * (sizes[loop] - 1)
    return one


# -- time --------------------------------------------------------------------------------------------------------------


def _cycles(
    shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes], points_outer: NDArray[np.bool_],
    is_double: NDArray[np.bool_],
) -> NDArray[np.float64]:  # fmt: skip
    """Expected cycles of the whole nest for each candidate."""
    space, extent = shape.cover.space, extents(shape)
    counts = {loop: -(-extent[loop] // sizes[loop]) for loop in sizes}
    point_tiles = counts[space.batch] * counts[space.row] * counts[space.column]
    lane_tiles = counts[space.lane]
    parts = np.ones_like(lane_tiles)
    if shape.weights is not None and shape.summed != NO_LOOP:
        whole = {**sizes, shape.summed: np.full_like(lane_tiles, extent[shape.summed])}
        parts = -(-_reach(shape, whole)[0] // sizes[shape.summed])
    for tap in shape.taps:
        parts = parts * counts[tap]
    tiles = point_tiles * lane_tiles * parts

    load = np.zeros(tiles.shape, float)
    vec = np.zeros(tiles.shape, float)
    mma = np.zeros(tiles.shape, float)
    store = np.zeros(tiles.shape, float)
    first = np.zeros(tiles.shape, float)  # what must be there before the first product
    instructions = tiles * (len(shape.cover.steps) + 1)
    bus = machine.dram.bus_bytes
    for index, step in enumerate(shape.cover.steps):
        if step.is_dot:
            vectors = np.maximum(space.pixels, point_tiles * max(machine.rows, MMA_UPDATE))
            mma = mma + vectors * _all_tiles(shape) * (1 + len(step.corrections))
        else:
            vec = vec + step.words
        for operand in step.format.sources:
            word_bytes = machine.memories[operand.memory].word_bytes
            match step.inputs[operand.name]:
                case WeightTiles() | TensorTiles():
                    again = np.where(points_outer, lane_tiles * parts > 1, parts > 1)
                    all_bytes = _all_tiles(shape) * operand.block * word_bytes
                    matrices = prod(extent[loop] for loop in shape.choosing)
                    load = load + np.where(again, point_tiles, matrices) * all_bytes / bus
                    first = first + HIDDEN_WEIGHTS * _reach(shape, sizes)[1] * operand.block * word_bytes / bus
                    instructions = instructions + tiles
                case Parameters() | Table() | TensorRead() if _is_there(shape, index, operand):
                    pass
                case Table(read):
                    tables = operand.block * _tables(shape, read, extent[space.lane] * shape.unit)
                    load = load + np.where(points_outer & (lane_tiles > 1), point_tiles, 1) * tables * word_bytes / bus
                case Parameters():
                    count = extent[space.across if operand.name in step.across else space.lane]
                    load = load + np.where(points_outer, point_tiles, 1) * count * word_bytes / bus
                case TensorRead(read) if read in shape.off_chip:
                    times = _box_loads(shape, step, point_tiles, lane_tiles, parts, points_outer)
                    box = _box_words(shape, step, read, sizes) * word_bytes / bus
                    load, first = load + times * box, first + box
                    instructions = instructions + tiles
                case Intermediate() | TensorRead() | _:
                    pass
    if shape.stores_result:
        word_bytes = machine.memories[shape.cover.steps[-1].format.destination.memory].word_bytes
        store = store + space.pixels * extent[space.lane] * shape.unit * word_bytes / bus
    load = load + instructions * machine.instruction_bytes / bus
    total = load + vec + mma + store
    slowest = np.maximum(store, np.maximum(mma, vec))
    is_loading = load > slowest
    results = point_tiles * lane_tiles
    ends = (vec + store) / results + mma / tiles
    ends = ends + np.where(is_loading, 0, first - slowest / np.where(mma >= slowest, tiles, results))
    slowest = np.maximum(slowest, load)
    serial = machine.dram.latency_cycles + mma_write(machine) + vec_results(machine)
    latency = tiles * TILE_CYCLES + serial + TRAFFIC * load
    return np.where(is_double, slowest + ends, total + tiles * serial) + latency


def _all_tiles(shape: NestShape) -> int:
    """Weight tiles of the whole nest, those of zeros left out."""
    assert shape.weights is not None
    return shape.weights.reach(shape.weights.units)[1]


def _box_loads(
    shape: NestShape, step: Step, point_tiles: Sizes, lane_tiles: Sizes, parts: Sizes, points_outer: NDArray[np.bool_]
) -> Sizes:
    """How often a tile of a tensor is loaded: a tile that the next one reads as well is kept."""
    if not step.is_dot:
        return point_tiles * lane_tiles
    if shape.weights is not None and shape.weights.reach(1)[0] < shape.weights.reach(shape.weights.units)[0]:
        return point_tiles * lane_tiles * parts  # each tile reads channels of its own
    every = point_tiles * lane_tiles * parts
    once_each = np.where(points_outer | (point_tiles == 1), point_tiles, every)
    return np.where(parts == 1, once_each, every)


# -- errors ------------------------------------------------------------------------------------------------------------


def _too_small(shape: NestShape, machine: Machine, room: Mapping[str, Room], words: Mapping[str, Sizes]) -> TooSmall:
    """Of the candidate that lacks the fewest bytes: what it lacks. What no candidate can do without is named first."""
    most = {name: room[name].most for name in words}
    lacking = {name: np.maximum(needed - most[name], 0) for name, needed in words.items()}
    total = sum(lack * machine.memories[name].word_bytes for name, lack in lacking.items())
    best = int(np.argmin(total))
    missing = [name for name, lack in lacking.items() if lack[best]]
    missing.sort(key=lambda name: int(lacking[name].min()) == 0)
    wants = {name: int(words[name][best]) for name in missing}
    depths = {name: _depth_for(machine.memories[name], room[name], wanted) for name, wanted in wants.items()}
    parts = [
        f"{wanted * machine.memories[name].word_bytes} bytes of {name}, "
        f"{most[name] * machine.memories[name].word_bytes} are free"
        for name, wanted in wants.items()
    ]
    changes = " ".join(f"--set {larger_memory(machine, name, depth)}" for name, depth in depths.items())
    fact = f"its smallest tile needs {', and '.join(parts)}"
    return TooSmall(describe(shape.cover.nest), fact, depths, f"try {changes}")


def _depth_for(memory: Memory, room: Room, wanted: int) -> int:
    """The least depth in equal banks with which a tile finds so many words, beside what is there already."""
    lacking = max(0, wanted - room.free, wanted - memory.depth)
    depth = memory.depth + -(-lacking // memory.banks) * memory.banks
    while (
        room.free + depth - memory.depth < wanted
        or longest_buffer(replace(memory, depth=depth), room.alignment) < wanted
    ):
        depth += memory.banks
    return depth
