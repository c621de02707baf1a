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

from tilewright.compiler.graph.graph import BATCH, CHANNEL, LEAK, ROW, Operator
from tilewright.compiler.lower.integers import is_sum
from tilewright.compiler.lower.network import LoweringNetwork, SpatialBox, result_loops, window_access
from tilewright.compiler.lower.partial_sums import SummedPart, all_pieces, parts_of, piece, place_of, sums_of
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
    """
    if network.pieces is None or operator.attributes["group"] != 1 or is_sum(operator.outputs[0], network):
        return []
    weights, w_scales = symmetric_weights(operator, network)
    bound = _range_of(sum_bounds(weights, network))
    pieces = [] if network.arithmetic.sum.interval.contains(bound) else pieces_of(weights, network)
    if not pieces:
        return []
    network.remarks[f"sums of {operator.name}"] = (
        f"they may reach {bound.low:,} to {bound.high:,}, which {network.arithmetic.sum} does not hold: "
        f"each is computed in {len(pieces)} pieces, which are then added up"
    )
    return list(_nests_of(operator, weights, w_scales, pieces, network))


def pieces_of(weights: NDArray[np.int64], network: LoweringNetwork) -> list[range]:
    """The input channels of each piece: as many as the type of sums is sure to hold; one range if it holds the whole.

    `weights` are [O, I, R, S]. Empty where that type does not hold even what one vector of channels adds, or where no
    instruction adds up so many pieces.
    """
    vector = network.lanes * network.group
    held, values = network.arithmetic.sum.interval, network.arithmetic.activation.interval
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
    operator: Operator,
    weights: NDArray[np.int64],
    w_scales: NDArray[np.float64],
    pieces: list[range],
    network: LoweringNetwork,
) -> Iterator[Nest]:
    """Those of a whole convolution, in pieces of these input channels each."""
    assert network.pieces is not None
    shape, result = network.shape(operator.outputs[0]), network.buffer_of[operator.outputs[0]]
    bias, factors = bias_and_factors(operator, weights, w_scales, network)
    bounds = sum_bounds(weights, network)
    for part in parts_of(operator.name, shape, len(pieces), network.pieces.memory, network):
        own, sums = part.own, sums_of(part, shape[0], len(pieces), network)
        trips = (shape[0], len(part.channels), len(part.rows), len(part.columns))
        nests = [
            _piece(operator, part, weights[own, channels.start : channels.stop], channels.start,
                   piece(sums, part, number), trips, network)
            for number, channels in enumerate(pieces)
        ]  # fmt: skip
        yield from nests
        read, written = all_pieces(sums, part), place_of(part, result)
        each = Interval(min(nest.expr.range.low for nest in nests), max(nest.expr.range.high for nest in nests))
        total = Expr(Op.SUM, _range_of(bounds[:, own]), (source("sums", each),))
        leak = operator.attributes.get(LEAK, ())
        product = Product((), read, trips, read, written, bias[own], factors[own], bounds[:, own], 0, leak)
        expr, more = requantised_sum(part.name, operator, total, product, network)
        yield Nest(
            part.name, operator.nodes, result_loops(trips, b=len(pieces)), {"sums": read, **more}, written, expr, 0
        )


def _piece(
    operator: Operator, part: SummedPart, weights: NDArray[np.int64], first: int, result: Access,
    trips: tuple[int, ...], network: LoweringNetwork,
) -> Nest:  # fmt: skip
    """The sums of the products with some of the input channels, from `first` on."""
    name = f"{part.name}.channels{first}"
    held = weight_access(f"{name}.weight", weights, 1, network)
    x_zero = network.quantization(operator.inputs[0])[1]
    box = SpatialBox(part.rows.start, len(part.rows), part.columns.start, len(part.columns))
    vector = window_access(operator.inputs[0], "i", operator, box, network, outside=x_zero)
    index = (vector.index[BATCH], replace(vector.index[CHANNEL], constant=first), *vector.index[ROW:])
    bound = _range_of(sum_bounds(weights, network))
    total = sum_of_products(network.activation("x"), source("w", network.values(held.tensor)), bound)
    _, inputs, rows, columns = weights.shape
    terms = {"t": network.constants[held.tensor].shape[TERM]} if len(held.index) > 4 else {}
    loops = result_loops(trips, i=inputs, **terms, r=rows, s=columns)
    macs = weights.size * trips[0] * trips[2] * trips[3]
    reads = {"x": replace(vector, index=index), "w": held}
    return Nest(name, operator.nodes, loops, reads, result, total, macs, layer=operator.name)


def _range_of(bounds: NDArray[np.int64]) -> Interval:
    """From the least sum of all channels to the greatest."""
    return Interval(int(bounds[0].min()), int(bounds[1].max()))
