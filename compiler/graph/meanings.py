"""What each canonical operator computes on real values. Operators on windows see [N, C, H, W], whatever the rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import (
    CHANNEL,
    COLUMN,
    FACTOR,
    LEAK,
    ROW,
    TAKEN,
    Attribute,
    Operator,
    TensorType,
    stored_shape,
)
from tilewright.compiler.graph.reference import evaluate_onnx_operator

Values = NDArray[Any]

OPSET = 21
"""The version of the ONNX operators that compute the canonical ones."""


def _product(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    sums = sums_of_products(operator, [operand.astype(np.float64) for operand in operands])
    return sums * operator.attributes["factor"]


def sums_of_products(operator: Operator, operands: Sequence[Values]) -> Values:
    a, b = (operand.reshape(stored_shape(operand.shape))[:, :, 0] for operand in operands)
    return np.asarray(np.einsum("nkm,nkl->nlm" if operator.attributes["is_transposed"] else "nkm,nlk->nlm", a, b))


def _permute(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return operands[0].reshape(operator.attributes["shape"]).transpose(operator.attributes["axes"])


def _same(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return operands[0]


def _conv(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    attributes = {name: operator.attributes[name] for name in ("strides", "pads", "dilations", "group")}
    sums = _onnx("Conv", attributes, [operands[0].reshape(stored_shape(operands[0].shape)), *operands[1:]])
    leak = np.array(operator.attributes.get(LEAK, (1.0,)), np.float32).reshape(1, -1, 1, 1)
    return np.where(sums < 0, sums * leak, sums)


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
    masks = [operator.attributes["mask"]] if len(operator.attributes["mask"]) else list(operands[1:])
    if not masks:
        exponentials = np.exp(image - image.max(axis=CHANNEL, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=CHANNEL, keepdims=True))
    kept = np.broadcast_to(masks[0] != 0, image.shape)
    least = np.where(kept, image, -np.inf).max(axis=CHANNEL, keepdims=True, initial=image.min())
    exponentials = np.where(kept, np.exp(image - least), 0)
    return np.asarray(exponentials / np.maximum(exponentials.sum(axis=CHANNEL, keepdims=True), np.finfo(float).tiny))


def _normalize(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    image = operands[0].reshape(stored_shape(operands[0].shape)).astype(np.float64)
    scale, bias = operator.attributes["scale"], operator.attributes["bias"]
    centred = image - image.mean(axis=CHANNEL, keepdims=True) if operator.attributes["is_centred"] else image
    variance = np.square(centred).mean(axis=CHANNEL, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + operator.attributes["epsilon"]) * scale + bias)


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
    """Every element times the kernel, added to the result where it falls."""
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
    def times_factor(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
        made, factor = function(*operands), operator.attributes.get(FACTOR)
        return made if factor is None else made * np.float32(factor)

    return times_factor


def _clamp(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    return np.clip(operands[0], operator.attributes["low"], operator.attributes["high"])


def _affine(operator: Operator, operands: Sequence[Values], result: TensorType) -> Values:
    x, scale, offset = operands
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return x * scale.reshape(shape) + offset.reshape(shape)


def _onnx(op_type: str, attributes: Mapping[str, Attribute], operands: Sequence[Values]) -> Values:
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
    "normalize": _normalize,
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
