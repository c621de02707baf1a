"""Per-channel scales and offsets (BatchNormalization, Mul, Add with constants) become part of a convolution.

With quantised weights the fold is exact: the integers stay (a negative factor changes their sign), and each
channel's scale and bias take the factor and offset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator, Quantization
from tilewright.compiler.simplify.attributes import ConstantTensor, constant_weights, stored_weights
from tilewright.compiler.simplify.binary import MOST_DIMENSIONS
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.stored_types import DEFAULT_TYPE


def fold_affine_into_conv(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(conv(x, w, b)) → conv(x, w · scale, b · scale + offset)."""
    x = operator.inputs[0]
    producer = view.producer(x, "conv", "conv_transpose")
    if producer is None or not view.is_read_once(x):
        return None
    weights = constant_weights(producer.inputs[1], view)
    bias = constant_weights(producer.inputs[2], view) if len(producer.inputs) > 2 else None
    if weights is None or (bias is None and len(producer.inputs) > 2):
        return None
    scale, offset = _values(operator, view)
    scaled = _scaled_weights(operator, weights, scale)
    offset = offset + (0 if bias is None else bias.real * scale)
    made = replace(producer, name=producer.name, outputs=operator.outputs, nodes=producer.nodes + operator.nodes)
    return _conv(made, scaled, offset, view)


def affine_to_conv(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(dequantize(q)) → a convolution of each channel with one weight that means 1, times the factor.

    Only where the result is quantised. Otherwise the affine belongs to a longer function, which may become a table; so
    this comes after all other rules.
    """
    users = view.users(operator.outputs[0])
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None or any(user.kind != "quantize" for user in users):
        return None
    if len(view.type(operator.inputs[0]).shape) > MOST_DIMENSIONS:
        return None  # a table, for which dimensions may be joined
    scale, offset = _values(operator, view)
    step = view.type(dequantize.inputs[0]).quantization
    assert step is not None
    integers = integers_of_one(scale * step.scale, offset)
    ones = ConstantTensor(
        integers.astype(DEFAULT_TYPE.dtype).reshape(-1, 1, 1, 1),
        Quantization(tuple((1 / integers).tolist()), (0,) * len(integers), 0),
    )
    attributes = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": len(scale)}
    made = Operator(operator.name, "conv", operator.inputs[:1] + ("",), operator.outputs, attributes, operator.nodes)
    return _conv(made, _scaled_weights(operator, ones, scale), offset, view)


def integers_of_one(scale: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.int64]:
    """Per channel, the integer that means 1, chosen so that the offset is near a multiple of scale / integer, a bias.

    Example: an offset of 0.3 at scale 1 is 38.1 steps of 1/127, and 36 of 1/120: 120 is better.
    """
    _, largest = DEFAULT_TYPE.limits
    integers = np.arange(largest, largest // 2, -1)  # where several are as good, the largest
    steps = np.divide(offset, np.abs(scale), out=np.zeros_like(offset), where=scale != 0)[:, None] * integers
    return np.asarray(integers[np.argmin(np.abs(steps - np.rint(steps)) / integers, axis=1)])


def _values(operator: Operator, view: GraphView) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    scale, offset = (view.constant(name) for name in operator.inputs[1:])
    assert scale is not None and offset is not None
    return scale, offset


def _scaled_weights(operator: Operator, weights: ConstantTensor, factor: NDArray[np.float64]) -> ConstantTensor:
    """Weights [O, …] times a factor for each output channel."""
    columns = factor.reshape(-1, *(1,) * (weights.values.ndim - 1))
    quantization = weights.quantization
    if quantization is None:
        return ConstantTensor((weights.values * columns).astype(weights.values.dtype), None)
    is_symmetric = not any(quantization.zero_points)
    if quantization.block and quantization.axis == 1 and np.all(factor > 0):
        of_blocks = np.array(quantization.scales).reshape(len(factor), -1) * factor[:, None]
        return ConstantTensor(weights.values, replace(quantization, scales=tuple(of_blocks.ravel().tolist())))
    if quantization.axis not in (None, 0) or not (is_symmetric or np.all(factor > 0)):
        raise CompileError(operator, expected="weights with zero point 0 and scales by output channel")
    values = weights.values.astype(np.int64) * np.sign(columns).astype(np.int64)
    held = np.iinfo(weights.values.dtype)
    if values.max() > held.max:
        fact = f"its negative scale turns the weight {held.min} into {-held.min}"
        raise CompileError(operator, fact, remedy=f"quantise weights to {-held.max} … {held.max}")
    count = len(factor)
    scales = np.broadcast_to(quantization.scales, (count,)) * np.where(factor == 0, 1.0, np.abs(factor))
    zeros = np.broadcast_to(quantization.zero_points, (count,))
    merged = Quantization(tuple(map(float, scales)), tuple(map(int, zeros)), 0)
    return ConstantTensor(values.astype(weights.values.dtype), merged)


def _conv(made: Operator, weights: ConstantTensor, bias: NDArray[np.float64], view: GraphView) -> Replacement:
    weight_name, weight = stored_weights(weights, f"{made.name}.weight", view)
    bias_name, stored = stored_weights(ConstantTensor(bias, None), f"{made.name}.bias", view)
    operator = replace(made, inputs=(made.inputs[0], weight_name, bias_name))
    return Replacement(
        (*weight.operators, operator), {**weight.tensors, **stored.tensors}, {**weight.constants, **stored.constants}
    )


AFFINE_RULES = {"affine": (fold_affine_into_conv,)}
LONE_AFFINE_RULES = {"affine": (affine_to_conv,)}
