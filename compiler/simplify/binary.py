"""Add, Sub, Mul, Max and Min of two activations, whose shapes may differ from the result's.

Both operands get the result's rank. One that has a single channel where the result has many is spread over them by a
product with ones, because a word holds the channels of one pixel.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Operator, Quantization, TensorType, stored_shape
from tilewright.compiler.simplify.attributes import ConstantTensor, attributes_of, constant_weights, stored_weights
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.isa.program.stored_types import DEFAULT_TYPE

BINARY_KINDS = {
    "onnx.Add": "add",
    "onnx.Sub": "sub",
    "onnx.Mul": "mul",
    "onnx.Max": "maximum",
    "onnx.Min": "minimum",
}
"""ONNX operator → canonical operator of two activations."""

BINARY = tuple(dict.fromkeys(BINARY_KINDS.values()))

MOST_DIMENSIONS = 4
"""The most dimensions of a tensor on the machine; `compiler.simplify.join_dimensions` joins those of more."""


def of_two(operator: Operator, view: GraphView) -> Replacement | None:
    """The canonical operator of two operands that broadcast, unless both are constant."""
    with attributes_of(operator):
        pass
    if len(operator.inputs) != 2 or all(constant_weights(name, view) is not None for name in operator.inputs):
        return None
    rank = len(view.type(operator.outputs[0]).shape)
    changes, inputs = [], []
    for name in operator.inputs:
        operand = view.type(name)
        shape = (1,) * (rank - len(operand.shape)) + operand.shape
        constant = constant_weights(name, view)
        if len(operand.shape) == rank or (constant is not None and not _has_one_scale(constant)):
            inputs.append(name)
            continue
        if constant is not None:
            values = replace(constant, values=constant.values.reshape(shape))
            fresh, change = stored_weights(values, f"{operator.name}.{name}.shaped", view)
            changes.append(change)
            inputs.append(fresh)
            continue
        fresh = view.fresh(f"{operator.name}.{name}.shaped")
        made = Operator(f"{operator.name}.shape", "reshape", (name,), (fresh,), {}, operator.nodes)
        changes.append(Replacement((made,), {fresh: replace(operand, shape=shape)}))
        inputs.append(fresh)
    made = replace(operator, kind=BINARY_KINDS[operator.kind], inputs=tuple(inputs), attributes={})
    return reduce(joined, [*changes, Replacement((made,))])


def _has_one_scale(constant: ConstantTensor) -> bool:
    return constant.quantization is None or constant.quantization.axis is None


def in_pairs(operator: Operator, view: GraphView) -> Replacement | None:
    """An operator of many, such as Max: of the first two, then of that and the third, and so on; of one: itself."""
    with attributes_of(operator):
        pass
    first, *others = operator.inputs
    if len(operator.inputs) == 2:
        return None
    if not others:
        return Replacement(aliases={operator.outputs[0]: first})
    made, tensors, shape = [], {}, view.type(first).shape
    for position, name in enumerate(others):
        shape = np.broadcast_shapes(shape, view.type(name).shape)
        is_last = position == len(others) - 1
        result = operator.outputs[0] if is_last else view.fresh(f"{operator.outputs[0]}.{position}")
        if not is_last:
            tensors[result] = TensorType(view.type(operator.outputs[0]).dtype, shape)
        made.append(replace(operator, name=f"{operator.name}.{position}", inputs=(first, name), outputs=(result,)))
        first = result
    return Replacement(tuple(made), tensors)


def sum_in_pairs(operator: Operator, view: GraphView) -> Replacement | None:
    """Sum(a, b, c) → Add(Add(a, b), c); of one: itself."""
    if len(operator.inputs) == 2:
        return Replacement((replace(operator, kind="onnx.Add"),))
    return in_pairs(operator, view)


def mean_as_sum(operator: Operator, view: GraphView) -> Replacement | None:
    """Mean(a, b, …) → Sum(a, b, …) times one over how many there are."""
    with attributes_of(operator):
        pass
    count, (result,) = len(operator.inputs), operator.outputs
    total, share = view.fresh(f"{result}.sum"), view.fresh(f"{operator.name}.share")
    added = replace(operator, name=f"{operator.name}.sum", kind="onnx.Sum", outputs=(total,))
    scaled = replace(operator, kind="onnx.Mul", inputs=(total, share))
    value = np.array(1 / count, np.float64)
    types = {total: view.type(result), share: TensorType("float64", ())}
    return Replacement((added, scaled), types, {share: value})


def quantized_between(operator: Operator, view: GraphView) -> Replacement | None:
    """max(max(a, b), c) of dequantised tensors: the first maximum is one of its operands, so it needs no rounding.

    Only where a and b have the same quantisation, which is then the result's as well.
    """
    sources = [view.producer(name, "dequantize") for name in operator.inputs]
    if any(source is None for source in sources):
        return None
    types = [view.type(source.inputs[0]) for source in sources if source is not None]
    users = view.users(operator.outputs[0])
    if types[0].quantization != types[1].quantization or types[0].dtype != types[1].dtype or not users:
        return None
    if all(user.kind == "quantize" for user in users):
        return None
    result = operator.outputs[0]
    integers = view.fresh(f"{result}.integers")
    result_type = TensorType(types[0].dtype, view.type(result).shape, types[0].quantization)
    inputs = tuple(source.inputs[0] for source in sources if source is not None)
    low, high = result_type.limits
    made = replace(operator, inputs=inputs, outputs=(integers,), attributes={"low": low, "high": high})
    back = Operator(f"{operator.name}.dequantize", "dequantize", (integers,), (result,), {}, operator.nodes)
    return Replacement((made, back), {integers: result_type})


def spread_channel(operator: Operator, view: GraphView) -> Replacement | None:
    """An operand [N, 1, H, W] beside one of C channels → its product with ones [C, 1, 1, 1], which is exact."""
    result = view.type(operator.outputs[0])
    if result.quantization is None or len(result.shape) > MOST_DIMENSIONS:
        return None
    _, channels, _, _ = stored_shape(result.shape, operator)
    for position, name in enumerate(operator.inputs):
        operand, value = view.type(name), view.constant(name)
        if operand.quantization is None:
            continue
        n, c, h, w = stored_shape(operand.shape, operator)
        if c != 1 or channels == 1:
            continue
        if operand.quantization.axis is not None:
            raise CompileError(operator, f"operand {name!r} has scales of its own for each channel")
        if value is not None:
            fresh = view.fresh(f"{operator.name}.{name}.spread")
            full = np.repeat(value, channels, axis=CHANNEL)
            inputs = tuple(fresh if at == position else other for at, other in enumerate(operator.inputs))
            types = {fresh: replace(operand, shape=full.shape)}
            return Replacement((replace(operator, inputs=inputs),), types, {fresh: full})
        spread, ones = (view.fresh(f"{operator.name}.{name}.{suffix}") for suffix in ("spread", "ones"))
        shape = (n, channels, h, w)[: len(result.shape)] if len(result.shape) != 3 else (n, channels, w)
        low, high = operand.limits
        attributes = {
            "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, "low": low, "high": high,
        }  # fmt: skip
        weights = np.ones((channels, 1, 1, 1), DEFAULT_TYPE.dtype)
        product = Operator(f"{operator.name}.spread", "conv", (name, ones), (spread,), attributes, operator.nodes)
        inputs = tuple(spread if at == position else other for at, other in enumerate(operator.inputs))
        types = {
            spread: replace(operand, shape=shape),
            ones: TensorType(DEFAULT_TYPE.name, weights.shape, Quantization((1.0,), (0,))),
        }
        return Replacement((product, replace(operator, inputs=inputs)), types, {ones: weights})
    return None


def before_spread(name: str, view: GraphView) -> str:
    """The operand of one channel that `spread_channel` spread over many, or the tensor itself."""
    product = view.producer(name, "conv")
    if product is None:
        return name
    weights, source = view.constant(product.inputs[1]), view.type(product.inputs[0])
    if weights is None or len(product.inputs) > 2 or stored_shape(source.shape)[CHANNEL] != 1:
        return name
    is_exact = source.quantization == view.type(name).quantization and source.limits == tuple(
        product.attributes[limit] for limit in ("low", "high")
    )
    is_spread = weights.shape[1:] == (1, 1, 1) and bool((weights == 1).all()) and not any(product.attributes["pads"])
    is_plain = view.type(product.inputs[1]).quantization == Quantization((1.0,), (0,))
    return product.inputs[0] if is_exact and is_spread and is_plain else name


BINARY_RULES = {
    **dict.fromkeys(BINARY_KINDS, (in_pairs, of_two)),
    "onnx.Sum": (sum_in_pairs,),
    "onnx.Mean": (mean_as_sum,),
    **dict.fromkeys(("maximum", "minimum"), (quantized_between, spread_channel)),
    **dict.fromkeys(("add", "sub", "mul"), (spread_channel,)),
}
"""Rules that are tried after those for an operand that is constant for each channel."""
