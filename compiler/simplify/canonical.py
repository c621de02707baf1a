"""ONNX operators to canonical ones: every attribute read, every default filled in, every window explicit.

The operators are those of https://onnx.ai/onnx/operators, opset 11 and later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import CompileError
from compiler.graph import Operator, Quantization, TensorType, describe, stored_shape
from compiler.simplify.attributes import Attributes, attributes_of
from compiler.simplify.rewrite import Replacement, View
from compiler.simplify.weights import Weights, constant_weights, stored_weights

INTEGERS = ("int8", "uint8")
"""Element types of activations and weights."""


# -- quantisation ------------------------------------------------------------------------------------------------------


def quantize_linear(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 1)
        attributes.only("saturate", 1)
        attributes.only("block_size", 0)
        attributes.ignore("output_dtype", "precision")
    output = operator.outputs[0]
    of = view.type(output)
    if of.dtype not in INTEGERS:
        raise CompileError(f"{describe(operator)}: quantises to {of.dtype}; expected int8 or uint8")
    quantization = _quantization(operator, axis, view)
    of = replace(of, quantization=quantization)
    low, high = of.limits
    value = view.constant(operator.inputs[0])
    if value is not None:
        scales, zeros = (np.float32(a) for a in _arrays(quantization, value.ndim))
        integers = np.clip(np.rint(value / scales) + zeros, low, high).astype(of.dtype)
        return Replacement(tensors={output: of}, constants={output: integers})
    _require_one_scale(operator, quantization)
    made = Operator(
        operator.name, "quantize", operator.inputs[:1], (output,), {"low": low, "high": high}, operator.nodes
    )
    return Replacement((made,), {output: of})


def dequantize_linear(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 1)
        attributes.only("block_size", 0)
        attributes.ignore("output_dtype")
    source = operator.inputs[0]
    of = view.type(source)
    value = view.constant(source)
    if of.dtype not in INTEGERS and not (of.dtype == "int32" and value is not None):
        raise CompileError(
            f"{describe(operator)}: dequantises {of.dtype}; expected int8 or uint8 (or an int32 constant)"
        )
    quantization = _quantization(operator, axis, view)
    if value is None:
        _require_one_scale(operator, quantization)
    made = Operator(operator.name, "dequantize", (source,), operator.outputs, {}, operator.nodes)
    if of.quantization is None:
        return Replacement((made,), {source: replace(of, quantization=quantization)})
    if of.quantization == quantization:
        return Replacement((made,))
    if value is None:
        raise CompileError(
            f"{describe(operator)}: {source!r} has another scale or zero point where it is made; expected the same"
        )
    copy = view.fresh(source)
    made = replace(made, inputs=(copy,))
    return Replacement((made,), {copy: replace(of, quantization=quantization)}, {copy: value})


def _quantization(operator: Operator, axis: int, view: View) -> Quantization:
    """The meaning that a QuantizeLinear or DequantizeLinear gives; per tensor if all scales are the same."""
    scale = view.constant(operator.inputs[1])
    has_zero = len(operator.inputs) > 2 and operator.inputs[2] != ""
    zero = view.constant(operator.inputs[2]) if has_zero else np.zeros(() if scale is None else scale.shape, np.int64)
    if scale is None or zero is None:
        raise CompileError(f"{describe(operator)}: its scale or zero point is computed; expected constants")
    if not np.all(np.isfinite(scale)) or np.any(scale < 0):
        raise CompileError(f"{describe(operator)}: its scale is {scale.min()}; expected positive numbers")
    scales, zeros = tuple(map(float, scale.ravel())), tuple(map(int, zero.ravel()))
    if len(zeros) != len(scales):
        raise CompileError(f"{describe(operator)}: {len(scales)} scales and {len(zeros)} zero points; expected as many")
    if len(set(scales)) == 1 and len(set(zeros)) == 1:
        return Quantization(scales[:1], zeros[:1])
    shape = view.type(operator.inputs[0]).shape
    rank = len(shape)
    if scale.ndim != 1 or not -rank <= axis < rank or shape[axis] != len(scales):
        raise CompileError(
            f"{describe(operator)}: {len(scales)} scales do not fit axis {axis} of its input, which is {list(shape)}"
        )
    return Quantization(scales, zeros, axis % rank)


def _require_one_scale(operator: Operator, quantization: Quantization) -> None:
    if quantization.axis is not None:
        raise CompileError(f"{describe(operator)}: an activation has a scale for each channel; expected one scale")
    if quantization.scale <= 0:
        raise CompileError(f"{describe(operator)}: its scale is {quantization.scale}; expected a positive number")


def _arrays(quantization: Quantization, rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
    shape = [1] * rank
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    return np.array(quantization.scales).reshape(shape), np.array(quantization.zero_points).reshape(shape)


# -- windows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over [H, W]; pads are (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    @property
    def attributes(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "strides": self.strides, "pads": self.pads, "dilations": self.dilations}


def read_window(attributes: Attributes, kernel: tuple[int, ...], source: TensorType, result: TensorType) -> Window:
    """The window of a Conv or pool from its attributes; one spatial dimension is taken as the width."""
    operator, rank = attributes.operator, len(kernel)
    if rank not in (1, 2) or len(source.shape) != rank + 2:
        raise CompileError(f"{describe(operator)}: its input has the shape {list(source.shape)}; expected [N, C, H, W]")
    ones = (1,) * rank
    strides = attributes.integers("strides") or ones
    dilations = attributes.integers("dilations") or ones
    pads = attributes.integers("pads") or (0,) * (2 * rank)
    auto_pad = attributes.text("auto_pad", "NOTSET")
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank or min(*strides, *dilations) < 1:
        raise CompileError(f"{describe(operator)}: strides, dilations or pads do not fit {rank} spatial dimensions")
    if min(pads) < 0:
        raise CompileError(f"{describe(operator)}: pads = {list(pads)}; expected no negative padding")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(auto_pad, kernel, strides, dilations, source.shape[2:], result.shape[2:])
    elif auto_pad == "VALID":
        pads = (0,) * (2 * rank)
    elif auto_pad != "NOTSET":
        raise CompileError(
            f"{describe(operator)}: auto_pad = {auto_pad!r}; expected NOTSET, SAME_UPPER, SAME_LOWER, VALID"
        )
    height = (1,) * (2 - rank)
    no_pad = (0,) * (2 - rank)
    begin, end = no_pad + pads[:rank], no_pad + pads[rank:]
    return Window(
        (height + kernel)[:2],  # type: ignore[arg-type]
        (height + strides)[:2],  # type: ignore[arg-type]
        (begin + end)[:4],  # type: ignore[arg-type]
        (height + dilations)[:2],  # type: ignore[arg-type]
    )


def _same_pads(
    auto_pad: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    source: tuple[int, ...],
    result: tuple[int, ...],
) -> tuple[int, ...]:
    """Padding so that the result has source / stride elements; the odd one at the end (UPPER) or the start (LOWER)."""
    begin, end = [], []
    for k, s, d, i, o in zip(kernel, strides, dilations, source, result, strict=True):
        total = max(0, (o - 1) * s + (k - 1) * d + 1 - i)
        first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        begin.append(first)
        end.append(total - first)
    return (*begin, *end)


# -- products ----------------------------------------------------------------------------------------------------------


def conv(operator: Operator, view: View) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    if weights is None:
        return None
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    with attributes_of(operator) as attributes:
        group = attributes.integer("group", 1)
        kernel = attributes.integers("kernel_shape") or weights.values.shape[2:]
        window = read_window(attributes, kernel, source, result)
    if kernel != weights.values.shape[2:]:
        raise CompileError(
            f"{describe(operator)}: kernel_shape = {list(kernel)}, the weights have {list(weights.values.shape)}"
        )
    return _convolution(operator, weights, window, group, operator.inputs[2:3], view)


def gemm(operator: Operator, view: View) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    if weights is None:
        return None
    with attributes_of(operator) as attributes:
        attributes.only("transA", 0)
        is_transposed = bool(attributes.integer("transB", 0))
        alpha, beta = attributes.number("alpha", 1.0), attributes.number("beta", 1.0)
    if alpha <= 0:
        raise CompileError(f"{describe(operator)}: alpha = {alpha}; expected a positive number")
    matrix = _scaled(_as_kernel(weights, is_transposed), alpha)
    bias = tuple(filter(None, operator.inputs[2:3]))
    change = Replacement()
    if bias:
        constant = constant_weights(bias[0], view)
        if constant is None:
            raise CompileError(f"{describe(operator)}: its bias is computed; expected a constant")
        if constant.values.shape != (matrix.values.shape[0],) or beta != 1:
            real = _bias_row(operator, constant.real * beta, matrix.values.shape[0])
            name, change = stored_weights(Weights(real, None), f"{operator.name}.bias", view)
            bias = (name,)
    return _with(change, _convolution(operator, matrix, Window((1, 1), (1, 1), (0,) * 4, (1, 1)), 1, bias, view))


def matmul(operator: Operator, view: View) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    source = view.type(operator.inputs[0])
    if weights is None or weights.values.ndim != 2 or len(source.shape) != 2:
        return None
    with attributes_of(operator):
        pass
    kernel = _as_kernel(weights, is_transposed=False)
    return _convolution(operator, kernel, Window((1, 1), (1, 1), (0,) * 4, (1, 1)), 1, (), view)


def _as_kernel(weights: Weights, is_transposed: bool) -> Weights:
    """[K, N] (or [N, K] when transposed) as [O, I, 1, 1]."""
    values, quantization = weights.values, weights.quantization
    if not is_transposed:
        values = np.ascontiguousarray(values.T)
        if quantization is not None and quantization.axis is not None:
            quantization = replace(quantization, axis=1 - quantization.axis)
    return Weights(values.reshape(*values.shape, 1, 1), quantization)


def _scaled(weights: Weights, factor: float) -> Weights:
    if factor == 1:
        return weights
    if weights.quantization is None:
        return replace(weights, values=weights.values * weights.values.dtype.type(factor))
    scales = tuple(scale * factor for scale in weights.quantization.scales)
    return replace(weights, quantization=replace(weights.quantization, scales=scales))


def _bias_row(operator: Operator, bias: NDArray[np.float64], outputs: int) -> NDArray[np.float64]:
    if bias.ndim == 2 and bias.shape[0] == 1:
        bias = bias[0]
    if bias.ndim > 1 or bias.size not in (1, outputs):
        raise CompileError(
            f"{describe(operator)}: its bias has the shape {list(bias.shape)}; expected one number for each of the "
            f"{outputs} columns"
        )
    return np.array(np.broadcast_to(bias.ravel(), (outputs,)))


def _convolution(
    operator: Operator, weights: Weights, window: Window, group: int, bias: tuple[str, ...], view: View
) -> Replacement:
    """The canonical conv; weights that are not [O, I, R, S] yet are stored anew."""
    name, change = operator.inputs[1], Replacement()
    original = constant_weights(name, view)
    shape = weights.values.shape
    if len(shape) == 3:
        weights = replace(weights, values=weights.values.reshape(shape[0], shape[1], 1, shape[2]))
    if original is None or weights.values.shape != original.values.shape:
        name, change = stored_weights(weights, f"{operator.name}.weight", view)
    attributes = {
        "strides": window.strides,
        "pads": window.pads,
        "dilations": window.dilations,
        "group": group,
    }
    inputs = (operator.inputs[0], name, *filter(None, bias))
    made = Operator(operator.name, "conv", inputs, operator.outputs, attributes, operator.nodes)
    return _with(change, Replacement((made,)))


def _with(first: Replacement, second: Replacement) -> Replacement:
    return Replacement(
        (*first.operators, *second.operators),
        {**first.tensors, **second.tensors},
        {**first.constants, **second.constants},
        {**first.aliases, **second.aliases},
    )


# -- pools -------------------------------------------------------------------------------------------------------------


def pool(operator: Operator, view: View) -> Replacement | None:
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    is_max = operator.kind == "onnx.MaxPool"
    if any(name in view.outputs or view.users(name) for name in filter(None, operator.outputs[1:])):
        raise CompileError(f"{describe(operator)}: its second result (Indices) is used; it has no lowering")
    with attributes_of(operator) as attributes:
        kernel = attributes.integers("kernel_shape") or ()
        window = read_window(attributes, kernel, source, result)
        attributes.ignore("ceil_mode")  # inferred shapes tell it
        if is_max:
            attributes.ignore("storage_order")  # of Indices
        else:
            counts_padding = attributes.integer("count_include_pad", 0)
    extra = {} if is_max else {"counts_padding": counts_padding}
    return _pool(operator, "max_pool" if is_max else "average_pool", window, extra)


def global_pool(operator: Operator, view: View) -> Replacement | None:
    _, _, height, width = stored_shape(view.type(operator.inputs[0]).shape, describe(operator))
    with attributes_of(operator):
        pass
    window = Window((height, width), (1, 1), (0,) * 4, (1, 1))
    is_max = operator.kind == "onnx.GlobalMaxPool"
    return _pool(operator, "max_pool" if is_max else "average_pool", window, {} if is_max else {"counts_padding": 0})


def reduce_mean(operator: Operator, view: View) -> Replacement | None:
    """The mean over all spatial dimensions is a global average pool; without kept dimensions, reshaped."""
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    axes = view.constant(operator.inputs[1]) if len(operator.inputs) > 1 else None
    with attributes_of(operator) as attributes:
        given = attributes.integers("axes") or (() if axes is None else tuple(int(axis) for axis in axes))
        keeps = attributes.integer("keepdims", 1)
        attributes.ignore("noop_with_empty_axes")
    rank = len(source.shape)
    if rank not in (3, 4) or {axis % rank for axis in given} != set(range(2, rank)):
        return None
    pooled = operator.outputs[0] if keeps else view.fresh(f"{operator.outputs[0]}.pooled")
    _, _, height, width = stored_shape(source.shape)
    window = Window((height, width), (1, 1), (0,) * 4, (1, 1))
    change = _pool(replace(operator, outputs=(pooled,)), "average_pool", window, {"counts_padding": 0})
    if keeps:
        return change
    reshape = Operator(f"{operator.name}.reshape", "reshape", (pooled,), operator.outputs)
    shape = source.shape[:2] + (1,) * (rank - 2)
    return _with(change, Replacement((reshape,), {pooled: replace(result, shape=shape)}))


def _pool(operator: Operator, kind: str, window: Window, extra: dict[str, Any]) -> Replacement:
    attributes = {**window.attributes, **extra}
    return Replacement(
        (Operator(operator.name, kind, operator.inputs[:1], operator.outputs[:1], attributes, operator.nodes),)
    )


# -- element by element ------------------------------------------------------------------------------------------------


def relu(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator):
        pass
    return _clamp(operator, 0.0, math.inf)


def clip(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator):
        pass
    bounds = [-math.inf, math.inf]
    for position, name in enumerate(operator.inputs[1:3]):
        if name:
            bound = constant_weights(name, view)
            if bound is None:
                raise CompileError(f"{describe(operator)}: its bounds are computed; expected constants")
            bounds[position] = float(bound.real.reshape(()))
    return _clamp(operator, bounds[0], bounds[1])


def _clamp(operator: Operator, low: float, high: float) -> Replacement:
    attributes = {"low": low, "high": high}
    return Replacement(
        (Operator(operator.name, "clamp", operator.inputs[:1], operator.outputs, attributes, operator.nodes),)
    )


def add(operator: Operator, view: View) -> Replacement | None:
    """Of two activations: add; with a constant for each channel: affine."""
    with attributes_of(operator):
        pass
    change = _with_constant(operator, view, is_commutative=True)
    if change is not None:
        return change
    a, b = (view.type(name).shape for name in operator.inputs)
    if len(a) != len(b) or any(constant_weights(name, view) is not None for name in operator.inputs):
        return None
    return Replacement((replace(operator, kind="add"),))


def combine_with_constant(operator: Operator, view: View) -> Replacement | None:
    """Sub, Mul or Div with a constant for each channel: affine."""
    with attributes_of(operator):
        pass
    return _with_constant(operator, view, is_commutative=operator.kind == "onnx.Mul")


def _with_constant(operator: Operator, view: View, is_commutative: bool) -> Replacement | None:
    for x, c in (operator.inputs, operator.inputs[::-1])[: 1 + is_commutative]:
        constant, source = constant_weights(c, view), view.type(x)
        if constant is None or constant_weights(x, view) is not None:
            continue
        channels = _channel_values(constant.real, source.shape)
        if channels is None or view.type(operator.outputs[0]).shape != source.shape:
            return None
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


def _channel_values(value: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """A constant that broadcasts against a tensor, as one number for each channel (dimension 1); None if it varies."""
    if value.ndim > len(shape) or len(shape) < 2:
        return None
    value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    if any(size != 1 for axis, size in enumerate(value.shape) if axis != 1):
        return None
    return np.array(np.broadcast_to(value.ravel(), (shape[1],)))


def batch_normalization(operator: Operator, view: View) -> Replacement | None:
    """y = (x - mean) · gamma / √(variance + epsilon) + beta, for each channel."""
    with attributes_of(operator) as attributes:
        epsilon = attributes.number("epsilon", 1e-5)
        attributes.only("training_mode", 0)
        attributes.ignore("momentum")
    found = [constant_weights(name, view) for name in operator.inputs[1:5]]
    if len(operator.outputs) > 1 or any(constant is None for constant in found):
        raise CompileError(f"{describe(operator)}: expected constant scale, bias, mean and variance, and one result")
    gamma, beta, mean, variance = (constant.real for constant in found if constant is not None)
    scale = gamma / np.sqrt(variance + epsilon)
    return affine(operator, operator.inputs[0], scale, beta - mean * scale, view)


def affine(
    operator: Operator, x: str, scale: NDArray[np.float64], offset: NDArray[np.float64], view: View
) -> Replacement:
    names = [view.fresh(f"{operator.name}.{part}") for part in ("scale", "offset")]
    values = dict(zip(names, (scale, offset), strict=True))
    types = {name: TensorType("float64", value.shape) for name, value in values.items()}
    made = Operator(operator.name, "affine", (x, *names), operator.outputs, {}, operator.nodes)
    return Replacement((made,), types, values)


# -- no computation ----------------------------------------------------------------------------------------------------


def identity(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator):
        pass
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def dropout(operator: Operator, view: View) -> Replacement | None:
    """At inference Dropout is the identity."""
    with attributes_of(operator) as attributes:
        attributes.ignore("ratio", "seed")
    mode = view.constant(operator.inputs[2]) if len(operator.inputs) > 2 and operator.inputs[2] else np.array(False)
    if mode is None or bool(mode) or any(name in view.outputs or view.users(name) for name in operator.outputs[1:]):
        raise CompileError(f"{describe(operator)}: expected inference: training_mode false, and no mask")
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def reshape(operator: Operator, view: View) -> Replacement | None:
    """Flatten, Reshape, Squeeze, Unsqueeze: the elements stay in order; shape inference has found the shape."""
    with attributes_of(operator) as attributes:
        attributes.ignore("axis", "axes", "allowzero")
    return Replacement((Operator(operator.name, "reshape", operator.inputs[:1], operator.outputs, {}, operator.nodes),))


CANONICALIZE = {
    # quantisation
    "onnx.QuantizeLinear": (quantize_linear,),
    "onnx.DequantizeLinear": (dequantize_linear,),
    # products
    "onnx.Conv": (conv,),
    "onnx.Gemm": (gemm,),
    "onnx.MatMul": (matmul,),
    # pools
    "onnx.MaxPool": (pool,),
    "onnx.AveragePool": (pool,),
    "onnx.GlobalMaxPool": (global_pool,),
    "onnx.GlobalAveragePool": (global_pool,),
    "onnx.ReduceMean": (reduce_mean,),
    # element by element
    "onnx.Relu": (relu,),
    "onnx.Clip": (clip,),
    "onnx.Add": (add,),
    "onnx.Sub": (combine_with_constant,),
    "onnx.Mul": (combine_with_constant,),
    "onnx.Div": (combine_with_constant,),
    "onnx.BatchNormalization": (batch_normalization,),
    # no computation
    "onnx.Identity": (identity,),
    "onnx.Dropout": (dropout,),
    "onnx.Flatten": (reshape,),
    "onnx.Reshape": (reshape,),
    "onnx.Squeeze": (reshape,),
    "onnx.Unsqueeze": (reshape,),
}
"""ONNX operator → its rule. A rule returns None where the operands are not (yet) what it can take."""
