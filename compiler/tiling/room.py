"""The words that one tile of a nest takes in each memory, how much room there is, and what is missing if none fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from tilewright.compiler.arithmetic import longest_buffer
from tilewright.compiler.errors import TooSmall
from tilewright.compiler.nest.space import describe
from tilewright.compiler.remedy import larger_memory
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
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.shape import (
    AREAS_OF_PARTIAL_SUMS,
    NestShape,
    Sizes,
    box_pixels,
    box_read,
    extents,
    in_groups,
    is_brought_already,
    is_cut,
    reach,
    tables,
    vector_access,
    words_of_pixels,
)
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Room:
    """What tiles may take of a memory: `free` words in all, at most `longest` in one piece of aligned groups.

    `is_in_bank`: a piece lies in one bank.
    """

    free: int
    longest: int
    alignment: int = 1
    is_in_bank: bool = False

    @property
    def most(self) -> int:
        """The most that one tile may take if a second one need not fit beside it."""
        return min(self.free, self.longest)


def longest_piece(memory: Memory, alignment: int, is_in_bank: bool) -> int:
    """The longest piece of aligned groups of a memory, in one bank or across them."""
    return memory.stretch_words if is_in_bank else longest_buffer(memory, alignment)


def limited(machine: Machine, options: TilingOptions) -> dict[str, Memory]:
    """The memories to plan with: of at most so many words as the options say, in as many banks."""
    memories = dict(machine.memories)
    for name, words in options.limits.items():
        memory = memories[name]
        if words < memory.depth:
            memories[name] = replace(memory, depth=max(1, words // memory.banks) * memory.banks)
    return memories


def too_small(shape: NestShape, machine: Machine, room: Mapping[str, Room], words: Mapping[str, Sizes]) -> TooSmall:
    """The error for the candidate that lacks the fewest bytes; memories that every candidate lacks come first."""
    most = {name: room[name].most for name in words}
    lacking = {name: np.maximum(needed - most[name], 0) for name, needed in words.items()}
    total = sum(lack * machine.memories[name].word_bytes for name, lack in lacking.items())
    best = int(np.argmin(total))
    missing = [name for name, lack in lacking.items() if lack[best]]
    missing.sort(key=lambda name: int(lacking[name].min()) == 0)
    wants = {name: int(words[name][best]) for name in missing}
    depths = {name: _depth_for(machine.memories[name], room[name], wanted) for name, wanted in wants.items()}
    needs = [
        f"{wanted * machine.memories[name].word_bytes} bytes of {name}, "
        f"{most[name] * machine.memories[name].word_bytes} are free"
        for name, wanted in wants.items()
    ]
    changes = " ".join(f"--set {larger_memory(machine, name, depth)}" for name, depth in depths.items())
    fact = f"its smallest tile needs {', and '.join(needs)}"
    error = TooSmall(describe(shape.cover.nest), fact, depths, f"try {changes}")
    error.nodes = shape.cover.nest.nodes
    return error


def _depth_for(memory: Memory, room: Room, wanted: int) -> int:
    """The smallest depth, in equal banks, that leaves a tile `wanted` words beside the tensors already there."""
    lacking = max(0, wanted - room.free, wanted - memory.depth)
    depth = memory.depth + -(-lacking // memory.banks) * memory.banks
    while (
        room.free + depth - memory.depth < wanted
        or longest_piece(replace(memory, depth=depth), room.alignment, room.is_in_bank) < wanted
    ):
        depth += memory.banks
    return depth


def tile_words(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    """Words that one tile takes in each memory, for each candidate, with the tiles that are computed within it."""
    words = _own_words(shape, machine, sizes)
    for within in shape.within:
        for memory, needed in _own_words(within.shape, machine, within.sizes(shape, sizes)).items():
            words[memory] = words[memory] + needed
    return words


def shared_words(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    """Of the words of a tile, those of tables that all tiles look up in: the next tile takes none beside them."""
    lane, whole = shape.cover.space.lane, extents(shape)[shape.cover.space.lane]
    words: dict[str, Sizes] = {name: np.zeros_like(sizes[lane]) for name in machine.memories}
    for index, step in enumerate(shape.cover.steps):
        for operand in step.format.tables:
            bound = step.inputs[operand.name]
            if isinstance(bound, TableBinding):
                is_shared = (sizes[lane] == whole) | (tables(shape, bound.read, whole) == 1)
                own = np.where(is_shared, _operand_words(shape, index, operand, sizes), 0)
                words[operand.memory] = words[operand.memory] + own
    return words


def _own_words(shape: NestShape, machine: Machine, sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    space = shape.cover.space
    points = sizes[space.batch] * sizes[space.row] * sizes[space.column]
    words: dict[str, Sizes] = {name: np.zeros_like(points) for name in machine.memories}
    for index, step in enumerate(shape.cover.steps):
        is_result = index == len(shape.cover.steps) - 1
        if not (is_result and shape.result_on_chip):
            memory = step.format.destination.memory
            words[memory] = words[memory] + points * _result_blocks(shape, step, is_result, sizes)
        if step.adding is not None:
            memory = step.format.destination.memory
            words[memory] = words[memory] + _words_of_sums(shape, step, points, sizes)
        for operand in step.format.sources:
            words[operand.memory] = words[operand.memory] + _operand_words(shape, index, operand, sizes)
    return words


def _result_blocks(shape: NestShape, step: Step, is_result: bool, sizes: Mapping[str, Sizes]) -> Sizes | int:
    """Lane blocks of what a step computes for one pixel."""
    if step.is_uniform and not is_result:
        return 1
    group = step.format.destination.block if step.is_dot else shape.group
    return in_groups(sizes[shape.cover.space.lane] * shape.unit, group)


def _words_of_sums(shape: NestShape, step: Step, points: Sizes, sizes: Mapping[str, Sizes]) -> Sizes:
    """Words of what is summed apart from a product: of each pixel that is read, along rows, and of each result."""
    batches, rows, columns = box_pixels(vector_access(shape, step), sizes)
    along = batches * rows * sizes[shape.cover.space.column]
    extent = extents(shape)[shape.cover.space.lane]
    results = points * _result_blocks(shape, step, False, sizes)
    lasting = np.where(sizes[shape.cover.space.lane] < extent, results, 0)  # those that lie beside the shared sums
    once = batches * rows * columns * step.format.destination.block + along
    return lasting + np.where(is_cut(shape, sizes), AREAS_OF_PARTIAL_SUMS * once + points, once)


def _operand_words(shape: NestShape, index: int, operand: Operand, sizes: Mapping[str, Sizes]) -> Sizes | int:
    """Words that must be brought on chip for an operand of a step."""
    step = shape.cover.steps[index]
    blocks = sizes[shape.cover.space.lane] * shape.unit
    match step.inputs[operand.name]:
        case Parameters() | TableBinding() | TensorRead() if is_brought_already(shape, index, operand):
            return 0
        case Parameters() as parameters if parameters.is_the_same_for_all(shape.cover.nest.reads):
            return 1
        case Parameters() if (words := words_of_pixels(shape, index, operand, sizes)) is not None:
            return words
        case Parameters():
            return sizes[shape.cover.space.across] if operand.name in step.across else blocks
        case TableBinding(read):
            return operand.block * tables(shape, read, blocks)
        case ConstantMatrix() | ComputedMatrix():
            vectors, tiles = reach(shape, sizes)
            numbers = sum(not correction.is_vector for correction in step.corrections)
            return (tiles + numbers * vectors) * operand.block
        case TensorRead(read):
            numbers = sum(correction.is_vector for correction in step.corrections)
            box = box_read(shape, step, read, sizes).words if read in shape.off_chip else 0
            return box + numbers * operand.block
        case Intermediate() | Idle():
            return 0
        case other:
            assert_never(other)
