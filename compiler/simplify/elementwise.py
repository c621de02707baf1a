"""Operators on each element: limits, sums of activations, and what a constant does to each channel."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Operator, TensorType
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.isa.program.stored_types import COMPUTED


def relu(operator: Operator, view: GraphView) -> Replacement | None:
    with attributes_of(operator):
        pass
    return _clamp(operator, 0.0, math.inf)


def clip(operator: Operator, view: GraphView) -> Replacement | None:
    """Limits on reals or, between QuantizeLinear and DequantizeLinear, on the integers; of a constant, none."""
    with attributes_of(operator):
        pass
    if view.constant(operator.inputs[0]) is not None:
        return None
    bounds = [-math.inf, math.inf]
    for position, name in enumerate(operator.inputs[1:3]):
        if name:
            bound = constant_weights(name, view)
            if bound is None:
                raise CompileError(operator, "its bounds are computed", expected="constants")
            bounds[position] = float(bound.real.reshape(()))
    if view.type(operator.inputs[0]).dtype in COMPUTED:
        return _limited_integers(operator, bounds[0], bounds[1], view)
    return _clamp(operator, bounds[0], bounds[1])


def _limited_integers(operator: Operator, low: float, high: float, view: GraphView) -> Replacement | None:
    """clip(q) on integers: q in the same steps, within closer limits. None where nothing says yet what they mean."""
    source, result = operator.inputs[0], operator.outputs[0]
    before, after = view.type(source), view.type(result)
    quantization = before.quantization or after.quantization
    if quantization is None or quantization.axis is not None:
        return None
    least, most = before.limits
    low, high = min(max(low, least), most), min(max(high, least), most)
    limits = {"low": int(min(low, high)), "high": int(high)}  # as ONNX: the greatest wins
    types = {source: replace(before, quantization=quantization), result: replace(after, quantization=quantization)}
    made = Operator(operator.name, "rescale", (source,), operator.outputs, limits, operator.nodes)
    return Replacement((made,), types)


def _clamp(operator: Operator, low: float, high: float) -> Replacement:
    attributes = {"low": low, "high": high}
    return Replacement(
        (Operator(operator.name, "clamp", operator.inputs[:1], operator.outputs, attributes, operator.nodes),)
    )


def combine_with_constant(operator: Operator, view: GraphView) -> Replacement | None:
    """Add, Sub, Mul or Div with a constant for each channel: affine."""
    with attributes_of(operator):
        pass
    return _with_constant(operator, view)


def constant_after_all(operator: Operator, view: GraphView) -> Replacement | None:
    """A canonical operator of two, one of which turned out to be a float constant for each channel: affine."""
    onnx_kind = {"add": "onnx.Add", "sub": "onnx.Sub", "mul": "onnx.Mul"}[operator.kind]
    if all(constant_weights(name, view) is None for name in operator.inputs):
        return None
    if view.type(operator.outputs[0]).quantization is not None:
        return None
    return _with_constant(replace(operator, kind=onnx_kind), view)


def _with_constant(operator: Operator, view: GraphView) -> Replacement | None:
    is_commutative = operator.kind in ("onnx.Add", "onnx.Mul")
    for x, c in (operator.inputs, operator.inputs[::-1])[: 1 + is_commutative]:
        constant, source = constant_weights(c, view), view.type(x)
        if constant is None or constant_weights(x, view) is not None:
            continue
        if view.type(operator.outputs[0]).shape != source.shape:
            return None  # the constant broadcasts the operand, not the other way round
        channels = channel_values(constant.real, source.shape)
        if channels is not None:
            return _affine_with(operator, x, channels, view)
        return _before_order(operator, x, constant.real, view)
    return None


def _affine_with(operator: Operator, x: str, channels: NDArray[np.float64], view: GraphView) -> Replacement | None:
    """The affine of an operator with a constant for each channel; None for a division by 0."""
    match operator.kind:
        case "onnx.Add":
            return affine(operator, x, np.ones_like(channels), channels, view)
        case "onnx.Sub":
            return affine(operator, x, np.ones_like(channels), -channels, view)
        case "onnx.Mul":
            return affine(operator, x, channels, np.zeros_like(channels), view)
        case "onnx.Div" if np.all(channels != 0):
            return affine(operator, x, 1 / channels, np.zeros_like(channels), view)
    return None


def _before_order(operator: Operator, x: str, constant: NDArray[np.float64], view: GraphView) -> Replacement | None:
    """op(transpose(z), c) → transpose(op(z, c)), if c has a number for each channel of z. The same for a reshape.

    Example: a bias for each column of a product of [N, T, K], which is a transposed convolution of [N, K, T].
    """
    before = view.producer(x, "transpose", "reshape")
    if before is None or constant.ndim > len(view.type(x).shape) or not view.is_read_once(x):
        return None
    z, shape = before.inputs[0], view.type(x).shape
    channels = None
    value = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
    if before.kind == "transpose":
        channels = channel_values(value.transpose(np.argsort(before.attributes["axes"])), view.type(z).shape)
    elif len(view.type(z).shape) > 1 and view.type(z).shape[CHANNEL] == np.prod(shape):
        channels = np.array(np.broadcast_to(value, shape).ravel())
    if channels is None:
        return None
    middle, result = view.fresh(f"{operator.outputs[0]}.unordered"), operator.outputs[0]
    change = _affine_with(replace(operator, outputs=(middle,)), z, channels, view)
    if change is None:
        return None
    after = replace(before, inputs=(middle,), outputs=(result,))
    typed = Replacement((after,), {middle: replace(view.type(result), shape=view.type(z).shape)})
    return joined(change, typed)


def channel_values(value: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """A constant that broadcasts against a tensor, as one number for each channel (dimension 1); None if it varies."""
    if value.ndim > len(shape) or len(shape) < 2:
        return None
    value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    if any(size != 1 for axis, size in enumerate(value.shape) if axis != CHANNEL):
        return None
    return np.array(np.broadcast_to(value.ravel(), (shape[CHANNEL],)))


def batch_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """y = (x - mean) · gamma / √(variance + epsilon) + beta, for each channel."""
    with attributes_of(operator) as attributes:
        epsilon = attributes.number("epsilon", 1e-5)
        attributes.only("training_mode", 0)
        attributes.ignore("momentum")
    found = [constant_weights(name, view) for name in operator.inputs[1:5]]
    if len(operator.outputs) > 1 or any(constant is None for constant in found):
        raise CompileError(operator, expected="constant scale, bias, mean and variance, and one result")
    gamma, beta, mean, variance = (constant.real for constant in found if constant is not None)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + epsilon)
        offset = beta - mean * scale
    return affine(operator, operator.inputs[0], scale, offset, view)


def affine(
    operator: Operator, x: str, scale: NDArray[np.float64], offset: NDArray[np.float64], view: GraphView
) -> Replacement:
    """x · scale + offset. Raises CompileError where one of these is not finite, as beside a negative variance."""
    if not (np.isfinite(scale).all() and np.isfinite(offset).all()):
        raise CompileError(operator, "its constants give a channel a factor or an offset that is not finite")
    names = [view.fresh(f"{operator.name}.{suffix}") for suffix in ("scale", "offset")]
    values = dict(zip(names, (scale, offset), strict=True))
    types = {name: TensorType("float64", value.shape) for name, value in values.items()}
    made = Operator(operator.name, "affine", (x, *names), operator.outputs, {}, operator.nodes)
    return Replacement((made,), types, values)
