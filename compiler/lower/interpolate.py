"""Linear interpolation as nests: one for each run of rows and columns that share their weights.

Example, by 2 with half pixels: rows 1, 3, 5, … are (3·x[q] + x[q + 1]) / 4, rows 2, 4, … are (x[q] + 3·x[q + 1]) / 4,
and the first and last row are those of the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.elements import rescaling
from tilewright.compiler.lower.moves import Run
from tilewright.compiler.lower.network import SPACE, Network, affine
from tilewright.compiler.lower.products import Product, product_nest, sum_bounds, weight_access
from tilewright.compiler.nest.nest import Access, Nest, NestLoop


@dataclass(frozen=True, slots=True)
class Blend:
    """Places of a result with the same weights: that of an element, and that of the next one unless it is 0."""

    run: Run
    weights: tuple[int, ...]


def lower_interpolate(operator: Operator, network: Network) -> list[Nest]:
    x, y = operator.inputs[0], operator.outputs[0]
    image, result = network.shape(x), network.shape(y)
    rows, columns = (
        blends(operator.attributes[name], image[axis]) for name, axis in (("rows", ROW), ("columns", COLUMN))
    )
    batches, channels = (Run(result[axis], 0, 1, 0, 1) for axis in (BATCH, CHANNEL))
    nests: list[Nest] = []
    for row in rows:
        for column in columns:
            name = operator.name if len(rows) * len(columns) == 1 else f"{operator.name}.part{len(nests)}"
            walk = (batches, channels, row.run, column.run)
            if len(row.weights) == len(column.weights) == 1:
                nests.append(_moved(name, operator, walk, network))
            else:
                nests.append(_blended(name, operator, walk, (row.weights, column.weights), network))
    return nests


def blends(weights: Sequence[int], size: int) -> list[Blend]:
    """The rows or columns of an interpolation as few blends; without weights, every element is as it was."""
    triples = list(zip(weights[::3], weights[1::3], weights[2::3], strict=True)) or [(i, 1, 0) for i in range(size)]
    kinds = dict.fromkeys((a, b) if b else (1,) for _, a, b in triples)
    found = []
    for kind in kinds:
        places = [p for p, (_, a, b) in enumerate(triples) if ((a, b) if b else (1,)) == kind]
        found += [Blend(run, kind) for run in _runs_at(places, [triples[p][0] for p in places])]
    return found


def _runs_at(places: list[int], sources: list[int]) -> list[Run]:
    """Pairs of places and sources as runs, in each of which both advance by one step."""
    found, start = [], 0
    while start < len(places):
        stop = start + 1
        steps = None
        while stop < len(places):
            by = (places[stop] - places[stop - 1], sources[stop] - sources[stop - 1])
            if steps not in (None, by):
                break
            steps, stop = by, stop + 1
        to_step, source_step = steps or (1, 1)
        found.append(Run(stop - start, places[start], to_step, sources[start], source_step))
        start = stop
    return found


def _moved(name: str, operator: Operator, walk: Sequence[Run], network: Network) -> Nest:
    """Places that hold one element of the operand each, rescaled."""
    loops = tuple(NestLoop(loop, run.count) for loop, run in zip(SPACE, walk, strict=True))
    read = tuple(run.read(loop) for run, loop in zip(walk, SPACE, strict=True))
    write = tuple(run.result(loop) for run, loop in zip(walk, SPACE, strict=True))
    reads = {"a": Access(network.buffer_of[operator.inputs[0]], read)}
    expr = rescaling(operator, network)
    return Nest(name, operator.nodes, loops, reads, Access(network.buffer_of[operator.outputs[0]], write), expr, 0)


def _blended(
    name: str, operator: Operator, walk: Sequence[Run], weights: tuple[tuple[int, ...], tuple[int, ...]],
    network: Network,
) -> Nest:  # fmt: skip
    x, y = operator.inputs[0], operator.outputs[0]
    (x_scale, x_zero), (y_scale, _) = network.quantization(x), network.quantization(y)
    kernel = np.outer(*weights)
    channels = walk[CHANNEL].count
    matrix = np.broadcast_to(kernel, (channels, 1, *kernel.shape)).astype(np.int64)
    read = [run.read(loop) for run, loop in zip(walk, SPACE, strict=True)]
    read[CHANNEL] = affine(("i", 1))
    for axis, tap in ((ROW, "r"), (COLUMN, "s")):
        read[axis] = affine(*read[axis].terms, (tap, 1), constant=read[axis].constant)
    product = Product(
        (channels, *kernel.shape),
        weight_access(f"{name}.weight", matrix, channels, network),
        tuple(run.count for run in walk),
        Access(network.buffer_of[x], tuple(read)),
        Access(network.buffer_of[y], tuple(run.result(loop) for run, loop in zip(walk, SPACE, strict=True))),
        np.full(channels, -x_zero * int(kernel.sum()), np.int64),
        np.full(channels, x_scale / (y_scale * int(kernel.sum()))),
        sum_bounds(matrix),
    )
    return product_nest(name, operator, product, 0, network)
