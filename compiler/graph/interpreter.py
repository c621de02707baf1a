"""Executes level 1: every operator by ONNX's reference evaluator, in float32; quantised tensors by their real values.

This is what a network means. The levels below compute the same in integers and may differ by one step where a value
is next to the middle between two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType, spread_scales
from tilewright.compiler.graph.meanings import MEANINGS, Values, sums_of_products
from tilewright.compiler.graph.reference import evaluate_onnx_operator
from tilewright.compiler.graph.saturation import saturated
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import FLOATS


def run_graph(graph: Graph, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The graph's outputs by the host's names, from its inputs."""
    tensors = run_graph_tensors(graph, inputs)
    return {name: _in_codes(tensors[tensor], graph.tensors[tensor]) for name, tensor in graph.outputs.items()}


def run_graph_tensors(graph: Graph, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The value of every tensor. Raises CompileError for an operator that the evaluator does not have."""
    tensors: dict[str, Values] = {**graph.constants, **{name: _in_steps(inputs[name]) for name in graph.inputs}}
    for operator in graph.operators:
        if operator.kind in ("onnx.QuantizeLinear", "onnx.DequantizeLinear"):
            operands = [tensors[name] for name in operator.inputs if name]
            tensors[operator.outputs[0]] = run_onnx_quantizer(operator, operands, graph.tensors[operator.outputs[0]])
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


def _in_steps(values: Values) -> Values:
    """Floats of few bits as the integers that they are; others as they are."""
    array = np.asarray(values)
    return SMALL_FLOATS[array.dtype.name].steps(array) if array.dtype.name in SMALL_FLOATS else array


def _in_codes(values: Values, tensor_type: TensorType) -> Values:
    small = SMALL_FLOATS.get(tensor_type.dtype)
    return values if small is None or values.dtype.name == small.name else small.values(values)


# -- quantisation ------------------------------------------------------------------------------------------------------


def quantize(real: Values, tensor_type: TensorType) -> Values:
    """QuantizeLinear: divided in float32, ties to even, saturated; NaN becomes the least value."""
    assert tensor_type.quantization is not None
    scales, zeros = (numbers.astype(np.float32) for numbers in spread_scales(tensor_type.quantization, real.shape))
    if tensor_type.dtype in FLOATS:
        small = SMALL_FLOATS[tensor_type.dtype]
        return small.nearest(real.astype(np.float32) / scales * small.least)
    steps = np.rint(real.astype(np.float32) / scales) + zeros
    return saturated(steps, *tensor_type.limits).astype(tensor_type.dtype)


def dequantize(integers: Values, tensor_type: TensorType) -> NDArray[np.float32]:
    """DequantizeLinear: the difference in integers, multiplied in float32; what is float already stays."""
    if tensor_type.quantization is None:
        return integers.astype(np.float32)
    scales, zeros = spread_scales(tensor_type.quantization, integers.shape)
    difference = integers.astype(np.int64) - zeros.astype(np.int64)
    return difference.astype(np.float32) * scales.astype(np.float32)


def quantization_of(scale: Values, zeros: Values, axis: int, block: int) -> Quantization:
    """What QuantizeLinear and DequantizeLinear mean by their scale and zero point, of a non-negative axis."""
    scales, zero_points = tuple(map(float, scale.ravel())), tuple(map(int, zeros.ravel()))
    return Quantization(scales, zero_points, axis if scale.size > 1 else None, block)


def run_onnx_quantizer(operator: Operator, values: Sequence[Values], result: TensorType) -> Values:
    """QuantizeLinear or DequantizeLinear of a value, its scale and perhaps its zero point.

    The evaluator has these only from opset 21 on, so that they are computed here for all.
    """
    value, scale, *rest = values
    axis, block = operator.attributes.get("axis", 1) % max(1, value.ndim), operator.attributes.get("block_size", 0)
    quantization = quantization_of(scale, rest[0] if rest else np.zeros(scale.shape, np.int64), axis, block)
    if operator.kind == "onnx.QuantizeLinear":
        return quantize(value, replace(result, quantization=quantization))
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
    sums = sums_of_products(operator, centred) * scale
    if result.dtype in FLOATS:
        small = SMALL_FLOATS[result.dtype]
        nearest = small.nearest(sums * small.least).reshape(result.shape)
        return np.clip(nearest, operator.attributes["low"], operator.attributes["high"])
    steps = np.rint(sums) + result.quantization.zero_point
    limited = np.clip(steps, operator.attributes["low"], operator.attributes["high"])
    return limited.reshape(result.shape).astype(result.dtype)
