"""Products whose sums may be larger than accumulators: summed in pieces that each fit, which are then added up.

    sums[o, b] = sum(x[i] * w[o, i])  for i in piece b            a nest for each piece, on the array
    y[o] = requantized(sum(sums[o, b]))                           one nest, in the vector engine

How large a piece may become is known from its weights, for each output channel. All of it is exact: results are those
of wide accumulators. The machine needs an instruction that adds up accumulators in more bits than these have, such as
`clamp(round_shift((sum(a) + p.bias) * p.scale, p.shift) + zero, low, high)`.

Example, on accumulators of 20 bits: 100 weights of 100 make sums up to 1,280,000, and int20 holds 524,287. Pieces of 32
channels make 409,600 at most, so there are four.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, CHANNEL, LEAK, ROW, Operator, block_diagonal
from tilewright.compiler.lower.network import LoweringNetwork, identity_index, result_loops, whole, window_access
from tilewright.compiler.lower.partial_sums import SummedPart, all_pieces, of_part, parts_of, piece, sums_of
from tilewright.compiler.lower.product_types import is_sum
from tilewright.compiler.lower.products import (
    TERM,
    Product,
    bias_and_factors,
    requantised_sum,
    sum_bounds,
    symmetric_weights,
    weight_access,
)
from tilewright.compiler.nest.expressions import source, sum_of_products
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op


def lower_in_pieces(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """A convolution whose sums the machine's accumulators may not hold, in pieces; no nests where it stays whole.

    It does where sums fit, where they are the result, and where no cut helps: `select` then says what is missing.
    With groups, weights between them are 0, as they are in a whole convolution.
    """
    if network.pieces is None or is_sum(operator.outputs[0], network):
        return []
    weights, w_scales = symmetric_weights(operator, network)
    bounds = sum_bounds(weights, network)
    if network.arithmetic.sum.interval.contains(_range_of(bounds)):
        return []
    bias, factors = bias_and_factors(operator, weights, w_scales, network)
    x, shape = operator.inputs[0], network.shape(operator.outputs[0])
    vector = window_access(x, "i", operator, whole(shape), network, outside=network.quantization(x)[1])
    result = Access(network.buffer_of[operator.outputs[0]], identity_index())
    product = Product((), vector, shape, vector, result, bias, factors, bounds, 0, operator.attributes.get(LEAK, ()))
    return product_in_pieces(operator.name, operator, weights, product, network)


def product_in_pieces(
    name: str, operator: Operator, weights: NDArray[np.int64], product: Product, network: LoweringNetwork
) -> list[Nest]:
    """A product whose sums may not fit, in pieces; no nests where it stays whole.

    `weights` are [O, I / group, R, S]; those of `product` are not looked at.
    """
    bound = _range_of(product.bounds)
    if network.pieces is None or is_sum(operator.outputs[0], network) or weights.shape[1] == 1:
        return []
    if network.arithmetic.sum.interval.contains(bound):
        return []
    dense = block_diagonal(weights, operator.attributes["group"], np.zeros(len(weights), np.int64))
    pieces = pieces_of(dense, network)
    if not pieces:
        return []
    network.remarks[f"sums of {name}"] = (
        f"they may reach {bound.low:,} to {bound.high:,}, which {network.arithmetic.sum} does not hold: "
        f"each is computed in {len(pieces)} pieces, which are then added up"
    )
    return list(_nests_of(name, operator, dense, product, pieces, network))


def pieces_of(weights: NDArray[np.int64], network: LoweringNetwork) -> list[range]:
    """The input channels of each piece: as many as the type of sums is sure to hold; one range if it holds the whole.

    `weights` are [O, I, R, S]. Empty where that type does not hold even what one vector of channels adds, or where no
    instruction adds up so many pieces.
    """
    vector = network.lanes * network.group
    held, values = network.arithmetic.sum.interval, network.arithmetic.activation.values
    starts = np.arange(0, weights.shape[1], vector)
    positive = np.add.reduceat(np.maximum(weights, 0).sum(axis=(2, 3)), starts, axis=1)
    negative = np.add.reduceat(weights.sum(axis=(2, 3)), starts, axis=1) - positive
    low, high = positive * values.low + negative * values.high, positive * values.high + negative * values.low
    ends = [0]
    for at in range(1, len(starts) + 1):
        own = slice(ends[-1], at)
        reach = Interval(int(low[:, own].sum(axis=1).min()), int(high[:, own].sum(axis=1).max()))
        if not held.contains(reach):
            ends.append(at - 1)
    bounds = [*(end * vector for end in ends), weights.shape[1]]
    found = list(starmap(range, pairwise(bounds)))
    most = 1 if network.pieces is None else network.pieces.most
    return found if len(found) <= most and all(found) and _each_fits(low, high, held) else []


def _each_fits(low: NDArray[np.int64], high: NDArray[np.int64], held: Interval) -> bool:
    """Whether sums of one vector of channels are held."""
    return held.contains(Interval(int(low.min()), int(high.max())))


def _nests_of(
    name: str,
    operator: Operator,
    weights: NDArray[np.int64],
    product: Product,
    pieces: list[range],
    network: LoweringNetwork,
) -> Iterator[Nest]:
    """Those of a whole product, in pieces of these input channels each."""
    assert network.pieces is not None
    batches, bounds = product.trips[BATCH], product.bounds
    for part in parts_of(name, product.trips, len(pieces), network.pieces.memory, network):
        own, sums = part.own, sums_of(part, batches, len(pieces), network)
        trips = (batches, len(part.channels), len(part.rows), len(part.columns))
        vector = of_part(product.vector, part)
        nests = [
            _piece(operator, part, weights[own, channels.start : channels.stop], channels.start, vector,
                   piece(sums, part, number), trips, network)
            for number, channels in enumerate(pieces)
        ]  # fmt: skip
        yield from nests
        read, written = all_pieces(sums, part), of_part(product.result, part)
        each = Interval(min(nest.expr.range.low for nest in nests), max(nest.expr.range.high for nest in nests))
        total = Expr(Op.SUM, _range_of(bounds[:, own]), (source("sums", each),))
        leak = product.leak[own] if len(product.leak) > 1 else product.leak
        added = Product(
            (), read, trips, read, written, product.bias[own], product.factors[own], bounds[:, own], 0, leak
        )
        expr, more = requantised_sum(part.name, operator, total, added, network)
        yield Nest(
            part.name, operator.nodes, result_loops(trips, b=len(pieces)), {"sums": read, **more}, written, expr, 0
        )


def _piece(
    operator: Operator, part: SummedPart, weights: NDArray[np.int64], first: int, vector: Access, result: Access,
    trips: tuple[int, ...], network: LoweringNetwork,
) -> Nest:  # fmt: skip
    """The sums of the products with some of the input channels, from `first` on, of a part that reads `vector`."""
    name = f"{part.name}.channels{first}"
    held = weight_access(f"{name}.weight", weights, 1, network)
    index = (vector.index[BATCH], replace(vector.index[CHANNEL], constant=first), *vector.index[ROW:])
    bound = _range_of(sum_bounds(weights, network))
    total = sum_of_products(network.activation("x"), source("w", network.values(held.tensor)), bound)
    _, inputs, rows, columns = weights.shape
    terms = {"t": network.constants[held.tensor].shape[TERM]} if len(held.index) > 4 else {}
    loops = result_loops(trips, i=inputs, **terms, r=rows, s=columns)
    macs = weights.size // operator.attributes["group"] * trips[0] * trips[2] * trips[3]
    reads = {"x": replace(vector, index=index), "w": held}
    return Nest(name, operator.nodes, loops, reads, result, total, macs, layer=operator.name)


def _range_of(bounds: NDArray[np.int64]) -> Interval:
    """From the least sum of all channels to the greatest."""
    return Interval(int(bounds[0].min()), int(bounds[1].max()))
