"""Models of one product whose weights have a scale for each block along the sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LIMITS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT8": (-128, 127)}

STEP = 0.01


def block_model(
    summed: int = 80, results: int = 40, block: int = 32, rows: int = 3, element: str = "INT4",
    zeros: Sequence[int] = (), seed: int = 0, activations: str = "int8",
) -> onnx.ModelProto:  # fmt: skip
    """x [rows, summed] times a matrix, between quantised activations; `zeros`: what zero points are drawn from."""
    rng = np.random.default_rng(seed)
    low, high = LIMITS[element]
    shape = -(-summed // block), results
    codes = rng.integers(low, high + 1, (summed, results))
    scales = rng.uniform(0.2, 1, shape) * STEP * 16 / (high - low + 1)
    step = np.float32(STEP * np.sqrt(summed / 32))
    constants = [
        _integers("w", element, codes),
        numpy_helper.from_array(scales.astype(np.float32), "w_scale"),
        *_activations("x", np.float32(0.02), 3, activations),
        *_activations("y", step, -5, activations),
    ]
    weights = ["w", "w_scale"]
    if zeros:
        constants.append(_integers("w_zero", element, rng.choice(zeros, shape)))
        weights.append("w_zero")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_int"], "quantize"),
        helper.make_node("DequantizeLinear", ["x_int", "x_scale", "x_zero"], ["x_real"], "dequantize"),
        helper.make_node("DequantizeLinear", weights, ["w_real"], "weights", axis=0, block_size=block),
        helper.make_node("MatMul", ["x_real", "w_real"], ["y_exact"], "matmul"),
        helper.make_node("QuantizeLinear", ["y_exact", "y_scale", "y_zero"], ["y_int"], "quantize_y"),
        helper.make_node("DequantizeLinear", ["y_int", "y_scale", "y_zero"], ["y"], "dequantize_y"),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (rows, size))
        for name, size in (("x", summed), ("y", results))
    ]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def convolution_in_blocks(
    channels: int = 48, results: int = 20, taps: int = 3, block: int = 16, stride: int = 1, pad: int = 1,
    is_of_window: bool = False, size: int = 6, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """x [1, channels, size, size] convolved with int4 weights; `is_of_window`: all taps of a block have one scale."""
    rng = np.random.default_rng(seed)
    shape = results, -(-channels // block), taps, taps
    scales = rng.uniform(0.2, 1, (*shape[:2], 1, 1) if is_of_window else shape) * STEP
    size_after = (size + 2 * pad - taps) // stride + 1
    constants = [
        _integers("w", "INT4", rng.integers(-8, 8, (results, channels, taps, taps))),
        numpy_helper.from_array(np.broadcast_to(scales, shape).astype(np.float32), "w_scale"),
        numpy_helper.from_array(rng.normal(0, 0.5, results).astype(np.float32), "bias"),
        *_activations("x", np.float32(0.02), 3, "int8"),
        *_activations("y", np.float32(STEP * np.sqrt(channels * taps**2 / 32)), -5, "int8"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_int"], "quantize"),
        helper.make_node("DequantizeLinear", ["x_int", "x_scale", "x_zero"], ["x_real"], "dequantize"),
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["w_real"], "weights", axis=1, block_size=block),
        helper.make_node(
            "Conv", ["x_real", "w_real", "bias"], ["y_exact"], "conv", pads=[pad] * 4, strides=[stride] * 2
        ),
        helper.make_node("QuantizeLinear", ["y_exact", "y_scale", "y_zero"], ["y_int"], "quantize_y"),
        helper.make_node("DequantizeLinear", ["y_int", "y_scale", "y_zero"], ["y"], "dequantize_y"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, size, size)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, results, size_after, size_after)),
    ]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def _integers(name: str, element: str, values: NDArray[np.int64]) -> onnx.TensorProto:
    kind = TensorProto.DataType.Value(element)
    return helper.make_tensor(name, kind, values.shape, values.ravel().tolist())


def _activations(name: str, scale: np.float32, zero: int, element: str) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(np.asarray(scale), f"{name}_scale"),
        numpy_helper.from_array(np.asarray(zero, element), f"{name}_zero"),
    ]
