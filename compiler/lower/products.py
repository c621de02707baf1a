"""Convolutions, matrix products and averages as nests: a sum of products, requantised channel by channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.arithmetic import NumberFormat
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, COLUMN, LEAK, ROW, Operator, block_diagonal, model_macs
from tilewright.compiler.lower.network import (
    SPACE,
    LoweringNetwork,
    SpatialBox,
    Spread,
    affine,
    kernel_of,
    result_loops,
    result_scales,
    target_of,
    whole,
    window_access,
)
from tilewright.compiler.lower.product_types import integer_sum, is_sum, require_few_bits
from tilewright.compiler.nest.expressions import Target, requantized, source, sum_of_products
from tilewright.compiler.nest.nest import Access, Affine, Nest
from tilewright.compiler.simplify.attributes import ConstantTensor
from tilewright.isa.language.expressions import Expr, make
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.program.stored_types import DEFAULT_TYPE

GATHERING = 3
"""The cost of closing the gaps between a tensor's channels, in passes over its words, for products and their sums."""

TERM = 2
"""The dimension of wide weights that counts the terms of their sum."""


def lower_conv(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """sum(x · w) over input channels and taps, requantised with bias, scale and shift of each output channel."""
    x, result = operator.inputs[0], network.shape(operator.outputs[0])
    weights, w_scales = symmetric_weights(operator, network)
    macs = model_macs(operator, network.graph)
    bias, factors = bias_and_factors(operator, weights, w_scales, network)
    trips, vector, written = _window_walk(operator, whole(result), network)
    spread = _worthwhile_spread(operator, weights, network)
    if spread is not None:
        weights = _spread_out(weights, spread)
        vector = replace(vector, tensor=spread.buffer)
    reduce = (network.shape(x)[CHANNEL] if spread is None else spread.width, *weights.shape[ROW:])
    bounds, shared = sum_bounds(weights, network), 0
    if operator.attributes["group"] == 1 and spread is None and network.adds_to_sums:
        shared = _shared_offset(weights, network)
    access = weight_access(f"{operator.name}.weight", weights - shared, operator.attributes["group"], network)
    leak = operator.attributes.get(LEAK, ())
    product = Product(reduce, access, trips, vector, written, bias, factors, bounds, shared, leak)
    return [product_nest(operator.name, operator, product, macs, network)]


def bias_and_factors(
    operator: Operator, weights: NDArray[np.int64], w_scales: NDArray[np.float64], network: LoweringNetwork
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """[O]: what is added to each channel's sum, in units of it, and how many steps of the result such a unit is."""
    x_scale, x_zero = network.quantization(operator.inputs[0])
    units = x_scale * w_scales
    bias = integer_bias(operator, units, network) - x_zero * weights.sum(axis=(1, 2, 3))
    return bias, units / result_scales(network.graph.tensors[operator.outputs[0]])


def _shared_offset(weights: NDArray[np.int64], network: LoweringNetwork) -> int:
    """The number nearest to 0 without which all weights fit their element: asymmetric ones lack it. 0 if there is none.

    It is the same for all output channels. So `x * w` becomes `x * (w - number) + x * number`, and the second product
    needs one tile of weights for all of them. 0 also where few weights do not fit: then it takes no more vectors to
    multiply what they have in excess, tile by tile.
    """
    held = network.arithmetic.weight.values
    low, high = int(weights.min()) - held.low, int(weights.max()) - held.high
    blocks = -(-weights.shape[1] // (network.lanes * network.group))
    return 0 if high > low or _wide_tiles(weights, network) <= blocks else max(high, min(low, 0))


def _wide_tiles(weights: NDArray[np.int64], network: LoweringNetwork) -> int:
    """The weight tiles of one tap in which a weight does not fit: tiles of a word of results, at the least."""
    held = network.arithmetic.weight.values
    is_wide = (weights < held.low) | (weights > held.high)
    outputs, inputs, rows, columns = np.nonzero(is_wide)
    tiles = np.stack([outputs // network.lanes, inputs // (network.lanes * network.group), rows, columns])
    return np.unique(tiles, axis=1).shape[1]


def _worthwhile_spread(operator: Operator, weights: NDArray[np.int64], network: LoweringNetwork) -> Spread | None:
    """Where the input lies with gaps between its channels, if reading it there costs less than closing them."""
    spread = network.spreads.get(network.buffer_of[operator.inputs[0]])
    if spread is None or operator.attributes["group"] != 1:
        return None
    outputs, inputs, height, width = weights.shape
    words, spread_words, units = (-(-size // network.lanes) for size in (inputs, spread.width, outputs))
    return spread if (spread_words - words) * height * width * units <= GATHERING * words else None


def _spread_out(weights: NDArray[np.int64], spread: Spread) -> NDArray[np.int64]:
    """Weights with zeros for the gaps between the channels."""
    outputs, _, *taps = weights.shape
    wide = np.zeros((outputs, spread.width, *taps), np.int64)
    wide[:, spread.channels] = weights
    return wide


@dataclass(frozen=True)
class Product:
    """A sum of products and its requantisation, for a part of the result."""

    reduce: tuple[int, ...]  # trips of i, r, s
    weights: Access
    trips: tuple[int, ...]  # of the loops over the part
    vector: Access
    result: Access
    bias: NDArray[np.int64]  # of each output channel
    factors: NDArray[np.float64]
    bounds: NDArray[np.int64]  # [2, O]: least and greatest sum
    shared: int = 0  # what all weights have in addition
    leak: tuple[float, ...] = ()  # what negative sums are multiplied by, from 0 to 1: for all channels, or each
    target: Target | None = None  # where the nest's result is not the operator's


def _window_walk(
    operator: Operator, box: SpatialBox, network: LoweringNetwork
) -> tuple[tuple[int, ...], Access, Access]:
    """The loops' trips, the read and the result of an operator on windows, for a box of its result."""
    x, y = operator.inputs[0], operator.outputs[0]
    vector = window_access(x, "i", operator, box, network, outside=network.quantization(x)[1])
    n, o, _, _ = network.shape(y)
    corner = (0, 0, box.y, box.x)
    index = tuple(affine((loop, 1), constant=first) for loop, first in zip(SPACE, corner, strict=True))
    return (n, o, box.height, box.width), vector, Access(network.buffer_of[y], index)


def product_nest(name: str, operator: Operator, product: Product, macs: int, network: LoweringNetwork) -> Nest:
    """The nest of a sum of products; `operator` gives the target, the nodes and the name in messages."""
    bound = Interval(int(product.bounds[0].min()), int(product.bounds[1].max()))
    arithmetic = network.arithmetic
    shared = [int(term) for term in terms_of(np.array(product.shared), arithmetic.weight)] if product.shared else []
    total = sum_of_products(network.activation("x"), source("w", _read_values(product.weights, network)), bound, shared)
    if is_sum(operator.outputs[0], network):
        expr, more = integer_sum(name, operator, total, product.bias, product.bounds, product.factors, network)
    else:
        expr, more = requantised_sum(name, operator, total, product, network)
    reads = {"x": product.vector, "w": product.weights, **more}
    i, r, s = product.reduce
    terms = {"t": network.constants[product.weights.tensor].shape[TERM]} if len(product.weights.index) > 4 else {}
    loops = result_loops(product.trips, i=i, **terms, r=r, s=s)
    return Nest(name, operator.nodes, loops, reads, product.result, expr, macs)


def requantised_sum(
    name: str, operator: Operator, total: Expr, product: Product, network: LoweringNetwork
) -> tuple[Expr, dict[str, Access]]:
    """The sum with bias, scale and shift of each channel, and the reads of these; where it leaks, the larger of two."""
    number = network.from_sums
    target = product.target or target_of(operator, network)
    parameters = {"bias": (_bounded_bias(operator, product, target, number), number.bias)}
    factors = {"": np.ones(1)} | ({"leak_": np.array(product.leak)} if product.leak else {})
    for prefix, factor in factors.items():
        scales, shifts = network.multipliers(product.factors * factor, number, operator)
        parameters[f"{prefix}scale"] = scales, number.scale
        parameters[f"{prefix}shift"] = shifts, number.shift
    reads: dict[str, Access] = {}
    leaves: dict[str, Expr] = {}
    for parameter, (values, element_type) in parameters.items():
        constant = network.add_constant(f"{name}.{parameter}", values, element_type)
        reads[parameter] = Access(constant, (affine(("o", 1)),))
        leaves[parameter] = source(parameter, network.values(constant))
    expr = requantized(total, leaves["bias"], leaves["scale"], leaves["shift"], target, number)
    if product.leak:
        small = requantized(total, leaves["bias"], leaves["leak_scale"], leaves["leak_shift"], target, number)
        expr = make(Op.MAX, expr, small)
    return expr, reads


def _read_values(access: Access, network: LoweringNetwork) -> Interval:
    """The values that an access of a constant can give."""
    values, outside = network.values(access.tensor), access.outside or 0
    return values if access.outside is None else Interval(min(values.low, outside), max(values.high, outside))


def symmetric_weights(operator: Operator, network: LoweringNetwork) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Integer weights [O, I / group, R, S] less their zero points, and the scale of each output channel."""
    name = operator.inputs[1]
    weight_type, values = network.graph.tensors[name], network.graph.constants[name].astype(np.int64)
    assert weight_type.quantization is not None
    if weight_type.quantization.axis not in (None, 0):
        fact = "its weights have scales along another dimension than the output channels"
        raise CompileError(operator, fact, expected="one scale, or one for each output channel")
    require_few_bits(operator, network)
    zeros = np.array(weight_type.quantization.zero_points, np.int64).reshape(-1, 1, 1, 1)
    scales = np.broadcast_to(np.array(weight_type.quantization.scales, np.float64), (values.shape[0],))
    return values - zeros if zeros.any() else values, scales


def weight_access(name: str, weights: NDArray[np.int64], group: int, network: LoweringNetwork) -> Access:
    """A constant of the weights, read as a matrix of all input channels: it is zero between the groups.

    With one output channel in each group the matrix is a band, and the constant stays as small as in the model. Weights
    that are wider than a weight once centred (asymmetric ones) become a sum of terms: a loop t over them reads x for
    each.
    """
    taps: tuple[Affine, ...] = (affine(("r", 1)), affine(("s", 1)))
    outputs, inputs, _, _ = weights.shape
    is_band = group > 1 and outputs == group
    whole = weights if is_band else block_diagonal(weights, group, np.zeros(outputs, np.int64))
    terms = terms_of(whole, network.arithmetic.weight)
    if len(terms) > 1:
        taps = (affine(("t", 1)), *taps)
        if network.arithmetic.weight.bits < DEFAULT_TYPE.values.bits:
            about = f"weights of {name.removesuffix('.weight')}"
            network.remarks[about] = f"each is a sum of {len(terms)} {network.arithmetic.weight}: as many tiles as that"
    values = terms[0] if len(terms) == 1 else np.stack(terms, TERM)
    name = network.add_constant(name, values, network.arithmetic.weight)
    if is_band:
        return Access(name, (affine(("o", 1)), affine(("o", -inputs), ("i", 1)), *taps), outside=0)
    return Access(name, (affine(("o", 1)), affine(("i", 1)), *taps))


def terms_of(weights: NDArray[np.int64], element_type: IntegerType) -> list[NDArray[np.int64]]:
    """Arrays of elements of a type, whose sum is the weights; one if they fit.

    Raises CompileError for negative weights where the type has no negative values.
    """
    held = element_type.values
    if held.low >= 0 > weights.min(initial=0):
        raise CompileError(
            fact=f"it has weights below 0, less their zero points, and those of the machine are {element_type}",
            expected=f"a type with a sign in the memory of weights: int{element_type.bits + 1} holds both",
        )
    if weights.min(initial=0) >= held.low and weights.max(initial=0) <= held.high:
        return [weights]
    terms: list[NDArray[np.int64]] = []
    while not terms or weights.any():
        terms.append(np.clip(weights, held.low, held.high))
        weights = weights - terms[-1]
    return terms


def sum_bounds(weights: NDArray[np.int64], network: LoweringNetwork) -> NDArray[np.int64]:
    """[2, O]: the least and greatest sum of products with any activations."""
    values = network.arithmetic.activation.values
    positive = np.maximum(weights, 0).sum(axis=(1, 2, 3))
    negative = weights.sum(axis=(1, 2, 3)) - positive
    return np.stack([positive * values.low + negative * values.high, positive * values.high + negative * values.low])


def integer_bias(operator: Operator, units: NDArray[np.float64], network: LoweringNetwork) -> NDArray[np.int64]:
    """The bias of each output channel in units of input scale · weight scale."""
    if len(operator.inputs) < 3:
        return np.zeros(len(units), np.int64)
    name = operator.inputs[2]
    real = ConstantTensor(network.graph.constants[name], network.graph.tensors[name].quantization).real
    steps = np.divide(real, units, out=np.zeros(len(units)), where=units > 0)
    limit = float(1 << 62)
    return np.rint(np.clip(steps, -limit, limit)).astype(np.int64)


def _bounded_bias(operator: Operator, product: Product, target: Target, number: NumberFormat) -> NDArray[np.int64]:
    """The biases, within the machine's width.

    One that does not fit is replaced by the nearest that does, if every sum is beyond the limits with either. Dead
    channels of real networks are like that. Raises CompileError for others.
    """
    limits = number.bias.interval
    bias = np.clip(product.bias, limits.low, limits.high)
    leak = np.array(product.leak or (1.0,))  # of sums below 0
    least = (bias + product.bounds[0]) * product.factors + target.zero
    greatest = (bias + product.bounds[1]) * product.factors * leak + target.zero
    is_same = (bias == product.bias) | np.where(product.bias > 0, least > target.high + 1, greatest < target.low - 1)
    if not np.all(is_same):
        channel = int(np.argmin(is_same))
        raise CompileError(
            operator,
            f"the bias of channel {channel} with the input's zero point folded in is {int(product.bias[channel])}",
            expected=f"{limits.low} to {limits.high}",
        )
    return bias


def lower_average_pool(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The mean as a product with an identity matrix at every tap; a nest for each number of elements in a window.

    Without padding, or if padding counts, all windows have the same number. Otherwise those at the edges have fewer and
    a scale of their own: rows and columns with equal numbers make boxes.
    """
    x, y = operator.inputs[0], operator.outputs[0]
    (x_scale, x_zero), (y_scale, _) = network.quantization(x), network.quantization(y)
    result, channels = network.shape(y), network.shape(x)[CHANNEL]
    kernel = kernel_of(operator, network)
    boxes = [
        (SpatialBox(top, height, left, width), rows * columns)
        for top, height, rows in _count_runs(operator, 0, network)
        for left, width, columns in _count_runs(operator, 1, network)
    ]
    w_name = network.add_constant(f"{operator.name}.weight", np.ones((channels, 1, 1, 1)), network.arithmetic.weight)
    weights = Access(w_name, (affine(("o", 1)), affine(("o", -1), ("i", 1)), affine(), affine()), outside=0)
    taps = kernel[0] * kernel[1]
    values = network.arithmetic.activation.values
    bounds = np.array([[values.low], [values.high]]) * np.full(channels, taps)
    bias = np.full(channels, -x_zero * taps, np.int64)
    nests = []
    for position, (box, count) in enumerate(boxes):
        factors = np.full(channels, x_scale / (y_scale * count))
        walk = _window_walk(operator, box, network)
        product = Product((channels, *kernel), weights, *walk, bias, factors, bounds)
        name = operator.name if len(boxes) == 1 else f"{operator.name}.part{position}"
        nests.append(product_nest(name, operator, product, 0, network))
    assert sum(box.height * box.width for box, _ in boxes) == result[ROW] * result[COLUMN]
    return nests


def _count_runs(operator: Operator, axis: int, network: LoweringNetwork) -> list[tuple[int, int, int]]:
    """(first index, length, count) of each run of output indices along H or W whose windows have `count` elements."""
    size = network.shape(operator.inputs[0])[ROW + axis]
    begin, end = operator.attributes["pads"][axis], operator.attributes["pads"][2 + axis]
    first, last = (-begin, size + end) if operator.attributes["counts_padding"] else (0, size)
    stride, dilation = operator.attributes["strides"][axis], operator.attributes["dilations"][axis]
    counts = []
    for index in range(network.shape(operator.outputs[0])[ROW + axis]):
        taps = (index * stride - begin + tap * dilation for tap in range(operator.attributes["kernel"][axis]))
        counts.append(sum(first <= tap < last for tap in taps))
    if min(counts) == 0:
        raise CompileError(operator, "a window lies wholly in the padding", expected="less padding")
    runs, position = [], 0
    for count, group in groupby(counts):
        length = len(list(group))
        runs.append((position, length, count))
        position += length
    return runs
