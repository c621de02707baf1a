"""QuantizeLinear and DequantizeLinear: their constants become part of the tensors' types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import CompileError, DamagedModel
from compiler.graph import Operator, Quantization, describe
from compiler.simplify.attributes import attributes_of
from compiler.simplify.rewrite import Replacement, View

INTEGERS = ("int8", "uint8")
"""Element types of activations and weights."""


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
        raise DamagedModel(f"{describe(operator)}: its scale is {scale.min()}; expected positive numbers")
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
        raise DamagedModel(f"{describe(operator)}: its scale is {quantization.scale}; expected a positive number")


def _arrays(quantization: Quantization, rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
    shape = [1] * rank
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    return np.array(quantization.scales).reshape(shape), np.array(quantization.zero_points).reshape(shape)
