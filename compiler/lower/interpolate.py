"""Linear interpolation as nests: one for each run of rows and columns that share their weights.

Where nearly all have weights of their own, there are fewer in two passes (`lower/interpolate_by_axis.py`).

Example, by 2 with half pixels: rows 1, 3, 5, … are (3·x[q] + x[q + 1]) / 4, rows 2, 4, … are (x[q] + 3·x[q + 1]) / 4,
and the first and last row are those of the operand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.blends import Blend, blends
from tilewright.compiler.lower.elements import rescaling
from tilewright.compiler.lower.interpolate_by_axis import lower_by_axis
from tilewright.compiler.lower.interpolation_axes import cycles_by_axis, product_cycles, two_axes
from tilewright.compiler.lower.moves import IndexRun
from tilewright.compiler.lower.network import SPACE, LoweringNetwork, affine
from tilewright.compiler.lower.products import Product, product_nest, sum_bounds, terms_of, weight_access
from tilewright.compiler.nest.nest import Access, Nest, NestLoop


def lower_interpolate(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    x, y = operator.inputs[0], operator.outputs[0]
    image, result = network.shape(x), network.shape(y)
    rows, columns = (
        blends(operator.attributes[name], image[axis]) for name, axis in (("rows", ROW), ("columns", COLUMN))
    )
    two = two_axes(operator, network)
    if two is not None and 3 * cycles_by_axis(operator, two, network) < 2 * _cycles(operator, rows, columns, network):
        return lower_by_axis(operator, two, network)
    batches, channels = (IndexRun(result[axis], 0, 1, 0, 1) for axis in (BATCH, CHANNEL))
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


def _cycles(operator: Operator, rows: Sequence[Blend], columns: Sequence[Blend], network: LoweringNetwork) -> int:
    """About how many cycles the products of all pairs of weights take."""
    batches, *_ = network.shape(operator.outputs[0])
    total = 0
    for row in rows:
        for column in columns:
            kernel = np.outer(row.weights, column.weights)
            if kernel.size > 1:
                taps = len(terms_of(kernel, network.arithmetic.weight)) * kernel.size
                total += product_cycles(taps, batches * row.run.count * column.run.count, network)
    return total


def _moved(name: str, operator: Operator, walk: Sequence[IndexRun], network: LoweringNetwork) -> Nest:
    """Places that hold one element of the operand each, rescaled."""
    loops = tuple(NestLoop(loop, run.count) for loop, run in zip(SPACE, walk, strict=True))
    read = tuple(run.read(loop) for run, loop in zip(walk, SPACE, strict=True))
    write = tuple(run.result(loop) for run, loop in zip(walk, SPACE, strict=True))
    reads = {"a": Access(network.buffer_of[operator.inputs[0]], read)}
    expr = rescaling(operator, network)
    return Nest(name, operator.nodes, loops, reads, Access(network.buffer_of[operator.outputs[0]], write), expr, 0)


def _blended(
    name: str, operator: Operator, walk: Sequence[IndexRun], weights: tuple[tuple[int, ...], tuple[int, ...]],
    network: LoweringNetwork,
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
        sum_bounds(matrix, network),
    )
    return product_nest(name, operator, product, 0, network)
