"""Matrix products of two computed tensors, and the exchange of a tensor's channels with its pixels.

Example, scores of 20 queries and 30 keys of 16 channels: the queries are vectors [16 channels, 20 pixels]; the words of
the keys, a pixel's 16 channels each, are rows of tiles that the array reads transposed; a result has a pixel for each
query and a channel for each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.compiler.graph.graph import BATCH, CHANNEL, ROW, Operator
from tilewright.compiler.lower.network import LoweringNetwork, affine, identity_index, result_loops, target_of
from tilewright.compiler.lower.picked_transposition import picked_transposition
from tilewright.compiler.lower.products import terms_of
from tilewright.compiler.nest.expressions import requantized, source
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op


def lower_product(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """y[n, l, 0, m] = Σ a[n, k, 0, m] · b[n, l, 0, k], or b[n, k, 0, l] if `is_transposed`; requantised once."""
    a, b = operator.inputs
    (a_scale, a_zero), (b_scale, b_zero) = network.quantization(a), network.quantization(b)
    y_scale, _ = network.quantization(operator.outputs[0])
    batch, length, _, pixels = network.shape(operator.outputs[0])
    summed = network.shape(a)[CHANNEL]
    matrix = network.buffer_of[b]
    before: list[Nest] = []
    is_transposed = operator.attributes["is_transposed"]
    if is_transposed and (network.turns_by_picking or summed % network.lanes):
        matrix, before = _turned(operator, network)
        is_transposed = False
    batches, over_summed, over_results = affine(("n", 1)), affine(("i", 1)), affine(("o", 1))
    channels, columns = (over_summed, over_results) if is_transposed else (over_results, over_summed)
    reads = {
        "x": Access(network.buffer_of[a], (batches, over_summed, affine(), affine(("x", 1)))),
        "w": Access(matrix, (batches, channels, affine(), columns)),
    }
    scale = operator.attributes["factor"] * a_scale * b_scale / y_scale
    scales, shifts = network.multipliers(np.array([scale]), network.from_sums, operator)
    leaves = const(summed * a_zero * b_zero), const(int(scales[0])), const(int(shifts[0]))
    total = _centred_sum(a_zero, b_zero, summed, network)
    expr = requantized(total, *leaves, target_of(operator, network), network.from_sums)
    result = Access(network.buffer_of[operator.outputs[0]], identity_index())
    loops = result_loops((batch, length, 1, pixels), i=summed)
    return [*before, Nest(operator.name, operator.nodes, loops, reads, result, expr, batch * length * summed * pixels)]


def _centred_sum(a_zero: int, b_zero: int, count: int, network: LoweringNetwork) -> Expr:
    """`sum((x - a_zero) * (w - b_zero))` without the product of both zero points; all factors are activations."""
    x, w = network.activation("x"), network.activation("w")
    terms = make(Op.MUL, x, w)
    for leaf, zero, beside in ((x, b_zero, network.arithmetic.weight), (w, a_zero, network.arithmetic.activation)):
        for term in terms_of(np.array(-zero), beside) if zero else ():
            terms = make(Op.ADD, terms, make(Op.MUL, leaf, const(int(term))))
    return Expr(Op.SUM, Interval(count * terms.range.low, count * terms.range.high), (terms,))


def _turned(operator: Operator, network: LoweringNetwork) -> tuple[str, list[Nest]]:
    """A buffer with the second operand's channels and pixels exchanged."""
    b = operator.inputs[1]
    batch, summed, _, length = network.shape(b)
    turned = network.add_buffer(f"{operator.name}.turned", (batch, length, 1, summed))
    read = Access(network.buffer_of[b], (affine(("n", 1)), affine(("x", 1)), affine(), affine(("o", 1))))
    trips = (batch, length, 1, summed)
    name = f"{operator.name}.turn"
    return turned, transposition(name, operator, trips, read, Access(turned, identity_index()), network)


def transposition(
    name: str, operator: Operator, trips: Sequence[int], read: Access, write: Access, network: LoweringNetwork
) -> list[Nest]:
    """Nests that write what they read, where the loop x walks over channels of the source and o along its pixels.

    `trips` are those of n, o, y and x. The source's channels are x plus a multiple of the lanes, one dimension of its
    pixels is o plus a constant, and in the result o walks over channels, x and y along pixels. For each word of
    channels one nest: a product of vectors of an identity matrix with tiles of the source, read transposed.
    """
    if network.turns_by_picking:
        return list(picked_transposition(name, operator, trips, read, write, network))
    batch, channels, rows, columns = trips
    lanes = network.lanes
    identity = np.eye(lanes, dtype=np.int64).reshape(1, lanes, 1, lanes)
    ones = network.add_constant(f"{name}.identity", identity, network.arithmetic.activation)
    vector = Access(ones, (affine(), affine(("i", 1)), affine(), affine(("x", 1))))
    w = network.activation("w")
    total = Expr(Op.SUM, w.range, (make(Op.MUL, source("e", Interval(0, 1)), w),))
    expr = requantized(total, const(0), const(1), const(0), network.unlimited(0), network.from_sums)
    nests = []
    for first in range(0, columns, lanes):
        count = min(lanes, columns - first)
        words = affine(("i", 1), constant=read.index[CHANNEL].constant + first)
        reads = {"e": vector, "w": replace(read, index=(read.index[BATCH], words, *read.index[ROW:]))}
        result = write.begun({"x": first})
        part = name if columns <= lanes else f"{name}.part{first // lanes}"
        loops = result_loops((batch, channels, rows, count), i=count)
        nests.append(Nest(part, operator.nodes, loops, reads, result, expr, 0))
    return nests
