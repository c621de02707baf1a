"""The words that one tile of a nest takes in each memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np

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
