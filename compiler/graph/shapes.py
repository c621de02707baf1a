"""The shape of each canonical operator's result, from its operands' shapes and its attributes.

Shapes are [N, C, H, W], as operators on windows see tensors. Every function is given the operands' shapes and returns
what the result's must be; it raises ValueError, with a reason, where operands and attributes do not fit each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from tilewright.compiler.graph.graph import CHANNEL, COLUMN, ROW, TAKEN, Operator

Shape = tuple[int, ...]
Shapes = Sequence[Shape]


def _need(is_so: bool, reason: str) -> None:
    if not is_so:
        raise ValueError(reason)


def _same(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    return operands[0]


def _same_elements(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    _need(prod(operands[0]) == prod(result), f"{prod(operands[0])} elements become {prod(result)}")
    return result


def _window(operator: Operator, size: Shape, kernel: Sequence[int]) -> Shape:
    """Height and width of what a window of a kernel walks over."""
    top, left, bottom, right = operator.attributes["pads"]
    found = []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        reach = operator.attributes["dilations"][axis] * (kernel[axis] - 1) + 1
        room = size[axis] + before + after - reach
        _need(room >= 0, f"a window of {reach} is larger than {size[axis] + before + after}, padding included")
        found.append(room // operator.attributes["strides"][axis] + 1)
    return tuple(found)


def _conv(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    (n, channels, *size), (outputs, inputs, *kernel) = operands[:2]
    group = operator.attributes["group"]
    _need(channels == inputs * group and outputs % group == 0, f"{channels} channels, {inputs} for each of {group}")
    _need(all(prod(bias) == outputs for bias in operands[2:]), f"a bias of other than {outputs} channels")
    leak = operator.attributes.get("leak", ())
    _need(len(leak) in (0, 1, outputs), f"a leak of {len(leak)} for {outputs} channels")
    return n, outputs, *_window(operator, tuple(size), kernel)


def _pool(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    n, channels, *size = operands[0]
    return n, channels, *_window(operator, tuple(size), operator.attributes["kernel"])


def _conv_transpose(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    (n, channels, *_), (outputs, inputs, *_) = operands[:2]
    group = operator.attributes["group"]
    _need(channels == inputs * group and outputs % group == 0, f"{channels} channels, {inputs} for each of {group}")
    _need(all(prod(bias) == outputs for bias in operands[2:]), f"a bias of other than {outputs} channels")
    return n, outputs, *result[ROW:]


def _broadcast(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    return tuple(np.broadcast_shapes(*operands))


def _affine(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    channels = operands[0][CHANNEL]
    _need(all(prod(each) in (1, channels) for each in operands[1:]), f"{channels} channels have other factors")
    return operands[0]


def _pad(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    top, left, bottom, right = operator.attributes["pads"]
    n, channels, height, width = operands[0]
    return n, channels, height + top + bottom, width + left + right


def _interpolate(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    shape = list(operands[0])
    for axis, name in ((ROW, "rows"), (COLUMN, "columns")):
        places = operator.attributes[name]
        _need(all(0 <= first < shape[axis] for first, *_ in places), f"{name} beyond {shape[axis]}")
        shape[axis] = len(places) or shape[axis]
    return tuple(shape)


def _space_to_depth(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    (n, channels, height, width), block = operands[0], operator.attributes["block"]
    _need(height % block == 0 and width % block == 0, f"{height} × {width} pixels in blocks of {block}")
    return n, channels * block * block, height // block, width // block


def _depth_to_space(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    (n, channels, height, width), block = operands[0], operator.attributes["block"]
    _need(channels % (block * block) == 0, f"{channels} channels in blocks of {block}")
    return n, channels // (block * block), height * block, width * block


def _concat(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    axis, first = operator.attributes["axis"], operands[0]
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in operands}
    _need(len(others) == 1, "operands differ in other dimensions")
    return *first[:axis], sum(shape[axis] for shape in operands), *first[axis + 1 :]


def _take(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    shape = list(operands[0])
    for axis, name in enumerate(TAKEN):
        taken = operator.attributes[name]
        _need(all(0 <= index < shape[axis] for index in taken), f"{name} beyond {shape[axis]}")
        shape[axis] = len(taken) or shape[axis]
    return tuple(shape)


def _product(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    (n, k, one, m), (batch, *matrix) = operands
    inner, length = (0, 2) if operator.attributes["is_transposed"] else (2, 0)
    _need(one == 1 and matrix[1] == 1 and batch == n and matrix[inner] == k, f"{list(operands[1])} by {k}")
    return n, matrix[length], 1, m


def _softmax(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    masks = [*operands[1:], *([operator.attributes["mask"].shape] if len(operator.attributes["mask"]) else [])]
    for mask in masks:
        _need(len(mask) == 4 and np.broadcast_shapes(mask, operands[0]) == operands[0], f"a mask of {list(mask)}")
    return operands[0]


def _normalize(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    for name in ("scale", "bias"):
        shape = operator.attributes[name].shape
        _need(np.broadcast_shapes(shape, operands[0]) == operands[0], f"{name} of {list(shape)}")
    return operands[0]


def _channel_max(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    n, _, height, width = operands[0]
    return n, 1, height, width


SHAPES: Mapping[str, Callable[[Operator, Shapes, Shape], Shape]] = {
    **dict.fromkeys(("quantize", "dequantize", "lookup", "clamp", "rescale"), _same),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), _broadcast),
    "conv": _conv,
    "affine": _affine,
    "refold": _same_elements,
    "max_pool": _pool,
    "average_pool": _pool,
    "pad": _pad,
    "conv_transpose": _conv_transpose,
    "interpolate": _interpolate,
    "space_to_depth": _space_to_depth,
    "depth_to_space": _depth_to_space,
    "concat": _concat,
    "take": _take,
    "product": _product,
    "softmax": _softmax,
    "normalize": _normalize,
    "channel_max": _channel_max,
}
"""Canonical operator → the shape of its result; those that see tensors of any rank are in ANY_RANK."""


def _reshape(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    return _same_elements(operator, operands, result)


def _transpose(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    axes = operator.attributes["axes"]
    _need(sorted(axes) == list(range(len(operands[0]))), f"axes {list(axes)} of {list(operands[0])}")
    return tuple(operands[0][axis] for axis in axes)


def _permute(operator: Operator, operands: Shapes, result: Shape) -> Shape:
    shape, axes = operator.attributes["shape"], operator.attributes["axes"]
    _need(prod(shape) == prod(operands[0]), f"{prod(operands[0])} elements seen as {list(shape)}")
    _need(sorted(axes) == list(range(len(shape))), f"axes {list(axes)} of {list(shape)}")
    return _same_elements(operator, operands, result)


ANY_RANK: Mapping[str, Callable[[Operator, Shapes, Shape], Shape]] = {
    **dict.fromkeys(("quantize", "dequantize", "clamp"), _same),
    "reshape": _reshape,
    "transpose": _transpose,
    "permute": _permute,
}
"""The same for operators that see tensors as they are."""
