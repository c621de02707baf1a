"""Executes level 1: every operator by ONNX's reference evaluator, in float32; quantised tensors by their real values.

This is what a network means. The levels below compute the same in integers and may differ by one step where a value
is next to the middle between two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import (
    CHANNEL,
    COLUMN,
    ROW,
    TAKEN,
    Graph,
    Operator,
    Quantization,
    TensorType,
    spread_scales,
    stored_shape,
)
from tilewright.compiler.graph.reference import evaluate_onnx_operator

Values = NDArray[Any]

OPSET = 21
"""Of the ONNX operators that canonical ones are computed with."""


def run_graph(graph: Graph, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The graph's outputs by the host's names, from its inputs."""
    tensors = run_graph_tensors(graph, inputs)
    return {name: tensors[tensor] for name, tensor in graph.outputs.items()}


def run_graph_tensors(graph: Graph, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The value of every tensor. Raises CompileError for an operator that the evaluator does not have."""
    tensors: dict[str, Values] = {**graph.constants, **{name: np.asarray(inputs[name]) for name in graph.inputs}}
    for operator in graph.operators:
        if operator.kind in ("onnx.QuantizeLinear", "onnx.DequantizeLinear"):
            tensors[operator.outputs[0]] = _run_onnx_quantizer(operator, graph, tensors)
        elif operator.kind.startswith("onnx."):
            values = [tensors[name] if name else None for name in operator.inputs]
            tensors |= zip(operator.outputs, evaluate_onnx_operator(operator, values, graph.opset), strict=False)
        elif operator.kind == "lookup":
            tensors[operator.outputs[0]] = _lookup(operator, graph, tensors)
        elif operator.kind == "product" and graph.tensors[operator.outputs[0]].quantization is not None:
            tensors[operator.outputs[0]] = _integer_product(operator, graph, tensors)
        else:
            tensors[operator.outputs[0]] = _run_canonical(operator, graph, tensors)
    return tensors


# -- quantisation ------------------------------------------------------------------------------------------------------


def quantize(real: Values, tensor_type: TensorType) -> Values:
    """QuantizeLinear: divided in float32, ties to even, saturated."""
    assert tensor_type.quantization is not None
    scales, zeros = (numbers.astype(np.float32) for numbers in spread_scales(tensor_type.quantization, real.shape))
    return np.clip(np.rint(real.astype(np.float32) / scales) + zeros, *tensor_type.limits).astype(tensor_type.dtype)


def dequantize(integers: Values, tensor_type: TensorType) -> NDArray[np.float32]:
    """DequantizeLinear: the difference in integers, multiplied in float32; what is float already stays."""
    if tensor_type.quantization is None:
        return integers.astype(np.float32)
    scales, zeros = spread_scales(tensor_type.quantization, integers.shape)
    difference = integers.astype(np.int64) - zeros.astype(np.int64)
    return difference.astype(np.float32) * scales.astype(np.float32)


def _run_onnx_quantizer(operator: Operator, graph: Graph, tensors: Mapping[str, Values]) -> Values:
    """The evaluator has these only from opset 21 on, so that they are computed here for all."""
    value, scale, *rest = (tensors[name] for name in operator.inputs if name)
    axis, block = operator.attributes.get("axis", 1) % max(1, value.ndim), operator.attributes.get("block_size", 0)
    zeros = rest[0] if rest else np.zeros(scale.shape, np.int64)
    scales, zero_points = tuple(map(float, scale.ravel())), tuple(map(int, zeros.ravel()))
    quantization = Quantization(scales, zero_points, axis if scale.size > 1 else None, block)
    if operator.kind == "onnx.QuantizeLinear":
        return quantize(value, replace(graph.tensors[operator.outputs[0]], quantization=quantization))
    return dequantize(value, TensorType(value.dtype.name, value.shape, quantization))


# -- canonical operators -----------------------------------------------------------------------------------------------


def _run_canonical(operator: Operator, graph: Graph, tensors: Mapping[str, Values]) -> Values:
    """Dequantise the operands, compute, quantise to the result's type, limit."""
    result = graph.tensors[operator.outputs[0]]
    operands = [dequantize(tensors[name], graph.tensors[name]) for name in operator.inputs]
    real = MEANINGS[operator.kind](operator, operands, result).reshape(result.shape)
    if result.quantization is None:
        return real.astype(np.float32)
    integers = quantize(real, result)
    limits = operator.attributes.get("low"), operator.attributes.get("high")
    return integers if None in limits else np.clip(integers, *limits)


def _lookup(operator: Operator, graph: Graph, tensors: Mapping[str, Values]) -> Values:
    name, table = operator.inputs[0], operator.attributes["table"]
    index = tensors[name].astype(np.int64) - graph.tensors[name].limits[0]
    if table.ndim == 1:
        return np.asarray(table[index])
    channels = np.arange(table.shape[0]).reshape(1, -1, *(1,) * (index.ndim - 2))
    return np.asarray(table[channels, index])


def _integer_product(operator: Operator, graph: Graph, tensors: Mapping[str, Values]) -> Values:
    """A product of quantised tensors: the sum in integers, exact, and one rounding."""
    result = graph.tensors[operator.outputs[0]]
    assert result.quantization is not None
    centred, scale = [], operator.attributes["factor"] / result.quantization.scale
    for name in operator.inputs:
        quantization = graph.tensors[name].quantization
        assert quantization is not None
        centred.append(tensors[name].astype(np.int64) - quantization.zero_point)
        scale *= quantization.scale
    steps = np.rint(_sums_of_products(operator, centred) * scale) + result.quantization.zero_point
    limited = np.clip(steps, operator.attributes["low"], operator.attributes["high"])
    return limited.reshape(result.shape).astype(result.dtype)


def _product(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    sums = _sums_of_products(operator, [operand.astype(np.float64) for operand in operands])
    return sums * operator.attributes["factor"]


def _sums_of_products(operator: Operator, operands: Sequence[Values]) -> Values:
    a, b = (operand.reshape(stored_shape(operand.shape))[:, :, 0] for operand in operands)
    return np.asarray(np.einsum("nkm,nkl->nlm" if operator.attributes["is_transposed"] else "nkm,nlk->nlm", a, b))


def _permute(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return operands[0].reshape(operator.attributes["shape"]).transpose(operator.attributes["axes"])


def _same(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return operands[0]


def _conv(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    attributes = {name: operator.attributes[name] for name in ("strides", "pads", "dilations", "group")}
    return _onnx("Conv", attributes, [operands[0].reshape(stored_shape(operands[0].shape)), *operands[1:]])


def _max_pool(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    taps = _windows(operator, operands[0], result, outside=-np.inf)
    return np.asarray(taps.max(axis=0))


def _average_pool(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    """The sum of the window's elements over how many of them count."""
    taps = _windows(operator, operands[0], result, outside=0.0)
    padding = operator.attributes["pads"] if operator.attributes["counts_padding"] else (0, 0, 0, 0)
    _, _, height, width = stored_shape(operands[0].shape)
    top, left, bottom, right = padding
    counted = np.ones((1, 1, height + top + bottom, width + left + right), np.float32)
    offsets = tuple(pad - counts for pad, counts in zip(operator.attributes["pads"], padding, strict=True))
    counts = _windows(operator, counted, result, outside=0.0, pads=offsets)
    return np.asarray(taps.sum(axis=0) / counts.sum(axis=0))


def _windows(
    operator: Operator, values: Values, result: TensorType, outside: float, pads: tuple[int, ...] | None = None
) -> Values:
    """The elements under each tap of the kernel, taps first: [taps, N, C, H, W] of the result."""
    top, left, *_ = operator.attributes["pads"] if pads is None else pads
    _, _, height, width = stored_shape(result.shape)
    values = values.reshape(stored_shape(values.shape))
    (r, s), (down, along), (row, column) = (operator.attributes[n] for n in ("kernel", "strides", "dilations"))
    needed = ((height - 1) * down + (r - 1) * row + 1, (width - 1) * along + (s - 1) * column + 1)
    after = [
        max(0, size - before - there)
        for size, before, there in zip(needed, (top, left), values.shape[ROW:], strict=True)
    ]
    padded = np.pad(values, ((0, 0), (0, 0), (top, after[0]), (left, after[1])), constant_values=outside)
    return np.stack(
        [
            padded[:, :, y * row : y * row + (height - 1) * down + 1 : down, x * column :][
                ..., : (width - 1) * along + 1 : along
            ]
            for y in range(r)
            for x in range(s)
        ]
    )


def _softmax(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    image = operands[0].reshape(stored_shape(operands[0].shape)).astype(np.float64)
    exponentials = np.exp(image - image.max(axis=CHANNEL, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=CHANNEL, keepdims=True))


def _channel_max(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return np.asarray(operands[0].reshape(stored_shape(operands[0].shape)).max(axis=CHANNEL, keepdims=True))


def _transpose(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return operands[0].transpose(operator.attributes["axes"])


def _pad(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    value, quantization = operator.attributes["value"], result.quantization
    real = value if quantization is None else (value - quantization.zero_point) * quantization.scale
    top, left, bottom, right = operator.attributes["pads"]
    image = operands[0].reshape(stored_shape(operands[0].shape))
    return np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=real)


def _concat(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    axis = operator.attributes["axis"]
    return np.concatenate([operand.reshape(stored_shape(operand.shape)) for operand in operands], axis)


def _conv_transpose(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    """Every element times the kernel, added where it meets the result."""
    x, weights, *bias = operands
    image = x.reshape(stored_shape(x.shape))
    n, channels, height, width = image.shape
    group = operator.attributes["group"]
    (down, along), (row, column), (top, left) = (operator.attributes[a] for a in ("strides", "dilations", "crops"))
    outputs, _, r, s = weights.shape
    _, _, rows, columns = stored_shape(result.shape)
    sums = np.zeros(
        (n, outputs, max(top + rows, (height - 1) * down + (r - 1) * row + 1),
         max(left + columns, (width - 1) * along + (s - 1) * column + 1)), np.float32
    )  # fmt: skip
    grouped = image.reshape(n, group, channels // group, height, width)
    kernels = weights.reshape(group, outputs // group, channels // group, r, s)
    for y in range(r):
        for x_tap in range(s):
            products = np.einsum("ngihw,goi->ngohw", grouped, kernels[..., y, x_tap])
            met = sums[:, :, y * row :: down, x_tap * column :: along][:, :, :height, :width]
            met += products.reshape(n, outputs, height, width)
    sums = sums[:, :, top : top + rows, left : left + columns]
    return sums + bias[0].reshape(1, -1, 1, 1) if bias else sums


def _interpolate(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    image = operands[0].reshape(stored_shape(operands[0].shape)).astype(np.float64)
    for axis, name in ((ROW, "rows"), (COLUMN, "columns")):
        places = operator.attributes[name]
        if places:
            first, here, beyond = np.array(places).reshape(-1, 3).T
            after = np.minimum(first + 1, image.shape[axis] - 1)
            here, beyond = (weights.reshape(-1, *(1,) * (COLUMN - axis)) for weights in (here, beyond))
            total = np.take(image, first, axis) * here + np.take(image, after, axis) * beyond
            image = total / (here + beyond)
    return image


def _space_to_depth(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return _onnx("SpaceToDepth", {"blocksize": operator.attributes["block"]}, operands)


def _depth_to_space(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    attributes = {"blocksize": operator.attributes["block"], "mode": operator.attributes["order"]}
    return _onnx("DepthToSpace", attributes, operands)


def _take(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    image = operands[0].reshape(stored_shape(operands[0].shape))
    for axis, name in enumerate(TAKEN):
        if operator.attributes[name]:
            image = np.take(image, operator.attributes[name], axis)
    return image


def _of_two(
    function: Callable[[Values, Values], Values],
) -> Callable[[Operator, Sequence[Values], TensorType], Values]:
    return lambda operator, operands, result: function(*operands)


def _clamp(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return np.clip(operands[0], operator.attributes["low"], operator.attributes["high"])


def _affine(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    x, scale, offset = operands
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return x * scale.reshape(shape) + offset.reshape(shape)


def _onnx(op_type: str, attributes: Mapping[str, Any], operands: Sequence[Values]) -> Values:
    names = tuple(f"operand{position}" for position in range(len(operands)))
    operator = Operator(op_type, f"onnx.{op_type}", names, ("result",), attributes)
    return evaluate_onnx_operator(operator, operands, OPSET)[0]


MEANINGS: Mapping[str, Callable[[Operator, Sequence[Values], TensorType], Values]] = {
    "quantize": _same,
    "dequantize": _same,
    "rescale": _same,
    "reshape": _same,
    "refold": _same,
    "conv": _conv,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "softmax": _softmax,
    "channel_max": _channel_max,
    "pad": _pad,
    "transpose": _transpose,
    "permute": _permute,
    "product": _product,
    "conv_transpose": _conv_transpose,
    "interpolate": _interpolate,
    "space_to_depth": _space_to_depth,
    "depth_to_space": _depth_to_space,
    "concat": _concat,
    "take": _take,
    "add": _of_two(np.add),
    "sub": _of_two(np.subtract),
    "mul": _of_two(np.multiply),
    "maximum": _of_two(np.maximum),
    "minimum": _of_two(np.minimum),
    "clamp": _clamp,
    "affine": _affine,
}
"""Canonical operator → what it computes on real values."""
