"""Operators that only move elements as nests: concat, take and pad.

Whole words are copied, and `compiler.nest.copies` removes most of the copies. Where channels change lanes, a product
with a matrix of ones and zeros picks each channel of the result, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, TAKEN, Operator
from tilewright.compiler.graph.pixel_blocks import block_channels
from tilewright.compiler.lower.network import (
    SPACE,
    LoweringNetwork,
    Spread,
    affine,
    identity_index,
    result_loops,
)
from tilewright.compiler.lower.products import Product, product_nest, sum_bounds
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestLoop

WIDEST_STEP = 64
"""The widest step of a result's indices that is tried when a list of indices is cut into runs."""


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Indices of a result and of its operand along one dimension: `count` pairs, each a step from the one before."""

    count: int
    to: int
    to_step: int
    source: int
    source_step: int

    def result(self, loop: str) -> Affine:
        return affine((loop, self.to_step), constant=self.to)

    def read(self, loop: str) -> Affine:
        return affine(*[(loop, self.source_step)] if self.source_step else [], constant=self.source)


def lower_take(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """A copy for each combination of runs, or a product where channels change lanes."""
    x, y = operator.inputs[0], operator.outputs[0]
    sizes = network.shape(x)
    taken = [operator.attributes[name] or range(size) for name, size in zip(TAKEN, sizes, strict=True)]
    batches, rows, columns = (runs(taken[axis]) for axis in (BATCH, ROW, COLUMN))
    moves = [(taken[CHANNEL], walk) for walk in product(batches, rows, columns)]
    return _moved(operator, network.buffer_of[x], network.buffer_of[y], moves, network)


def lower_depth_to_space(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """For each place in a block, some channels moved to every block-th row and column."""
    x, y = operator.inputs[0], operator.outputs[0]
    block = operator.attributes["block"]
    batches, _, height, width = network.shape(x)
    moves = [
        (channels, (_all(batches), IndexRun(height, i, block, 0, 1), IndexRun(width, j, block, 0, 1)))
        for i, j, channels in block_channels(network.shape(y)[CHANNEL], block, operator.attributes["order"])
    ]
    return _moved(operator, network.buffer_of[x], network.buffer_of[y], moves, network)


def lower_space_to_depth(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """Every block-th row and column moved to channels of its own; or a convolution that picks them, block by block."""
    x, y = operator.inputs[0], operator.outputs[0]
    block = operator.attributes["block"]
    _, inputs, _, _ = network.shape(x)
    batches, outputs, height, width = network.shape(y)
    places = list(block_channels(inputs, block, "DCR"))
    if inputs % network.lanes == 0:
        return [
            _copy(
                _part_name(operator, position, len(places)),
                operator,
                network.buffer_of[x],
                (_all(batches), IndexRun(inputs, channels[0], 1, 0, 1), IndexRun(height, 0, 1, i, block),
                 IndexRun(width, 0, 1, j, block)),
                network.buffer_of[y],
                network,
            )
            for position, (i, j, channels) in enumerate(places)
        ]  # fmt: skip
    matrix = np.zeros((outputs, inputs, block, block), np.int64)
    for i, j, channels in places:
        matrix[list(channels), range(inputs), i, j] = 1
    taps = (affine(("y", block), ("r", 1)), affine(("x", block), ("s", 1)))
    made = picking(
        network.add_constant(f"{operator.name}.weight", matrix, network.arithmetic.weight),
        Access(network.buffer_of[x], (affine(("n", 1)), affine(("i", 1)), *taps)),
        (batches, outputs, height, width),
        Access(network.buffer_of[y], identity_index()),
        network.quantization(y)[1],
        network,
    )
    return [product_nest(operator.name, operator, made, 0, network)]


def lower_concat(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """Every operand copied to its place.

    Where an operand does not begin on a word's first lane, all are copied side by side with gaps between them, and a
    product gathers the channels. Convolutions and further concatenations may read them with the gaps.
    """
    y, axis = operator.outputs[0], operator.attributes["axis"]
    sizes = [network.shape(name)[axis] for name in operator.inputs]
    firsts = [sum(sizes[:position]) for position in range(len(sizes))]
    held = [_held(name, operator, network) for name in operator.inputs]
    if axis != CHANNEL or all(first % network.lanes == 0 for first in firsts):
        return _side_by_side(operator, list(zip(held, sizes, firsts, strict=True)), network.buffer_of[y], network)
    spreads = [network.spreads.get(buffer, _close(buffer, size)) for buffer, size in zip(held, sizes, strict=True)]
    apart, end = [], 0
    for spread in spreads:
        apart.append(end)
        end += -(-spread.width // network.lanes) * network.lanes
    n, _, height, width = network.shape(y)
    buffer = network.add_buffer(f"{y}.apart", (n, apart[-1] + spreads[-1].width, height, width))
    channels = np.concatenate([first + spread.channels for first, spread in zip(apart, spreads, strict=True)])
    spread = Spread(buffer, channels, network.buffers[buffer].shape[CHANNEL])
    network.spreads[network.buffer_of[y]] = spread
    pieces = [(piece.buffer, piece.width, first) for piece, first in zip(spreads, apart, strict=True)]
    nests = _side_by_side(operator, pieces, buffer, network)
    matrix = selector(operator.name, channels.tolist(), spread.width, network)
    whole = (_all(n), _all(height), _all(width))
    nests.append(selection(operator.name, operator, buffer, matrix, whole, network.buffer_of[y], network))
    return nests


def _held(name: str, operator: Operator, network: LoweringNetwork) -> str:
    """The buffer or constant of an operand, whose integers must mean the same numbers as the result's."""
    if network.quantization(name) != network.quantization(operator.outputs[0]):
        raise CompileError(
            operator,
            f"{name!r} has another scale or zero point than the result",
            expected="the same, or DequantizeLinear before and QuantizeLinear after it",
        )
    return network.buffer_of[name] if name in network.buffer_of else network.stored_constant(name)


def _close(buffer: str, channels: int) -> Spread:
    """Channels that follow each other without gaps."""
    return Spread(buffer, np.arange(channels), channels)


def lower_refold(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    x, y = operator.inputs[0], operator.outputs[0]
    source, target = network.buffer_of[x], network.buffer_of[y]
    return [refolded(operator.name, operator, source, target, network.shape(x), network.shape(y), network)]


def refolded(
    name: str, operator: Operator, source: str, target: str, shape: Sequence[int], result: Sequence[int],
    network: LoweringNetwork,
) -> Nest:  # fmt: skip
    """One row cut into rows, or rows that follow each other in one row: a copy."""
    is_cut = shape[ROW] == 1
    batches, channels, rows, columns = result if is_cut else shape
    outer = (affine(("n", 1)), affine(("o", 1)))
    in_one_row = (*outer, affine(), affine(("y", columns), ("x", 1)))
    in_rows = (*outer, affine(("y", 1)), affine(("x", 1)))
    read, write = (in_one_row, in_rows) if is_cut else (in_rows, in_one_row)
    loops = result_loops((batches, channels, rows, columns))
    reads = {"a": Access(source, read)}
    return Nest(name, operator.nodes, loops, reads, Access(target, write), network.activation("a"), 0)


def lower_pad(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """A copy that reads beyond the operand's edges, where it finds the value of the padding."""
    x, y = operator.inputs[0], operator.outputs[0]
    top, left, _, _ = operator.attributes["pads"]
    value = int(operator.attributes["value"]) - network.offset(y)
    reads = {"a": Access(network.buffer_of[x], tuple(
        affine((loop, 1), constant=-before) for loop, before in zip(SPACE, (0, 0, top, left), strict=True)
    ), outside=value)}  # fmt: skip
    write = Access(network.buffer_of[y], identity_index())
    loops = result_loops(network.shape(y))
    return [Nest(operator.name, operator.nodes, loops, reads, write, network.activation("a"), 0)]


# -- runs of indices ---------------------------------------------------------------------------------------------------


def runs(indices: Sequence[int]) -> list[IndexRun]:
    """A list of indices as few runs, each with one step in the list and one in the values.

    Example: 0 0 1 1 2 2 is 0 1 2 at the even places and 0 1 2 at the odd ones.
    """
    best = _runs_of_step(indices, 1)
    for step in range(2, min(len(best), len(indices), WIDEST_STEP)):
        found = _runs_of_step(indices, step, len(best))
        best = found if len(found) < len(best) else best
    return best


def _runs_of_step(indices: Sequence[int], step: int, most: float = math.inf) -> list[IndexRun]:
    """The runs of one step in the list; only the first ones where there are at least `most`."""
    found: list[IndexRun] = []
    for first in range(min(step, len(indices))):
        own = indices[first::step]
        start, count = 0, len(own)
        while start < count and len(found) < most:
            stop = start + 1
            by = own[stop] - own[start] if stop < count else 1
            while stop < count and own[stop] - own[stop - 1] == by:
                stop += 1
            by = by if stop - start > 1 else 1
            found.append(IndexRun(stop - start, first + start * step, step if stop - start > 1 else 1, own[start], by))
            start = stop
    return found


def _lane_runs(channels: Sequence[int], lanes: int) -> list[IndexRun] | None:
    """Channels as runs of whole words; None if some channel would change its lane."""
    found = []
    for run in _runs_of_step(channels, 1):
        if run.to % lanes or run.source % lanes or (run.count > 1 and run.source_step != 1):
            return None
        found.append(run)
    return found


# -- nests -------------------------------------------------------------------------------------------------------------


def _all(count: int) -> IndexRun:
    return IndexRun(count, 0, 1, 0, 1)


def _moved(
    operator: Operator, source: str, target: str,
    moves: Sequence[tuple[Sequence[int], tuple[IndexRun, IndexRun, IndexRun]]], network: LoweringNetwork,
) -> list[Nest]:  # fmt: skip
    """Nests that fill a target: each move has channels of the source, and runs of batches, rows and columns."""
    nests: list[Nest] = []
    spread = network.spreads.get(source)
    if spread is not None and any(_lane_runs(channels, network.lanes) is None for channels, _ in moves):
        source, moves = spread.buffer, [(spread.channels[list(channels)].tolist(), walk) for channels, walk in moves]
    inputs = network.buffers[source].shape[CHANNEL]
    matrices: dict[tuple[int, ...], str] = {}
    for channels, (n, rows, columns) in moves:
        found = _lane_runs(channels, network.lanes)
        name = _part_name(operator, len(nests), len(moves) * (1 if found is None else len(found)))
        if found is None:
            key = tuple(channels)
            if key not in matrices:
                matrices[key] = selector(operator.name, channels, inputs, network)
            nests.append(selection(name, operator, source, matrices[key], (n, rows, columns), target, network))
        for lanes in found or ():
            name = _part_name(operator, len(nests), len(moves) * len(found or ()))
            nests.append(_copy(name, operator, source, (n, lanes, rows, columns), target, network))
    return nests


def _part_name(operator: Operator, position: int, count: int) -> str:
    return operator.name if count == 1 else f"{operator.name}.part{position}"


def _side_by_side(
    operator: Operator, pieces: Sequence[tuple[str, int, int]], target: str, network: LoweringNetwork
) -> list[Nest]:
    """Copies of whole buffers, each given with its size along the operator's axis and its first index in the target."""
    nests = []
    for position, (source, size, first) in enumerate(pieces):
        walk = [_all(trip) for trip in network.shape(operator.outputs[0])]
        walk[operator.attributes["axis"]] = IndexRun(size, first, 1, 0, 1)
        nests.append(_copy(_part_name(operator, position, len(pieces)), operator, source, walk, target, network))
    return nests


def _copy(
    name: str, operator: Operator, source: str, walk: Sequence[IndexRun], target: str, network: LoweringNetwork
) -> Nest:
    """A nest that moves a part of the source to a part of the target."""
    loops = tuple(NestLoop(loop, run.count) for loop, run in zip(SPACE, walk, strict=True))
    read = Access(source, tuple(run.read(loop) for run, loop in zip(walk, SPACE, strict=True)))
    write = Access(target, tuple(run.result(loop) for run, loop in zip(walk, SPACE, strict=True)))
    return Nest(name, operator.nodes, loops, {"a": read}, write, network.activation("a"), 0)


def selector(name: str, channels: Sequence[int], inputs: int, network: LoweringNetwork) -> str:
    """A constant matrix of ones and zeros: channel i of its product is channel `channels[i]` of the operand."""
    matrix = np.zeros((len(channels), inputs, 1, 1), np.int64)
    matrix[np.arange(len(channels)), list(channels)] = 1
    return network.add_constant(f"{name}.weight", matrix, network.arithmetic.weight)


def selection(
    name: str,
    operator: Operator,
    source: str,
    matrix: str,
    walk: tuple[IndexRun, IndexRun, IndexRun],
    target: str,
    network: LoweringNetwork,
) -> Nest:
    """The product of a part of the source with a matrix that picks channels, written to a part of the target."""
    outputs = network.constants[matrix].shape[0]
    n, rows, columns = walk
    along = (n, _all(outputs), rows, columns)
    vector = [run.read(loop) for run, loop in zip(along, SPACE, strict=True)]
    vector[CHANNEL] = affine(("i", 1))
    result = Access(target, tuple(run.result(loop) for run, loop in zip(along, SPACE, strict=True)))
    trips = tuple(run.count for run in along)
    _, zero = network.quantization(operator.outputs[0])
    made = picking(matrix, Access(source, tuple(vector)), trips, result, zero, network)
    return product_nest(name, operator, made, 0, network)


def picking(
    matrix: str, vector: Access, trips: tuple[int, ...], result: Access, zero: int, network: LoweringNetwork
) -> Product:
    """A product each of whose channels is one channel of its operand: nothing is rounded."""
    outputs, *reduce = network.constants[matrix].shape
    weights = Access(matrix, tuple(affine((loop, 1)) for loop in ("o", "i", "r", "s")))
    bounds = sum_bounds(network.constants[matrix], network)
    bias = np.full(outputs, -zero, np.int64)
    return Product(tuple(reduce), weights, trips, vector, result, bias, np.ones(outputs), bounds)
