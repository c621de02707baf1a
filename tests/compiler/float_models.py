"""Models of one matrix product whose weights, and perhaps activations, are floats of few bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.isa.program.small_floats import BY_SHORT_NAME, shared_exponents

OPSET, IR_VERSION = 25, 13

SUMMED, RESULTS = 64, 32

LARGEST = 5.3
"""Of the result; its scale is no power of two times that of the operand."""


def quantised(real: NDArray[np.float32], element: str, axis: int | None = None, block: int = 0, is_e8m0: bool = False):
    """Codes of few bits and their scales: one, one for each index of `axis`, or one for each block along it."""
    of = BY_SHORT_NAME[element]
    sizes = np.abs(real)
    if block:
        largest = np.maximum.reduceat(sizes, np.arange(0, real.shape[axis], block), axis)
    elif axis is not None:
        largest = sizes.max(axis=tuple(each for each in range(real.ndim) if each != axis))
    else:
        largest = sizes.max()
    scales = np.ldexp(np.float32(1), shared_exponents(largest, of)) if is_e8m0 else largest / np.float32(of.largest)
    scales = np.asarray(scales, np.float32)
    spread = scales
    if block:
        spread = scales.repeat(block, axis).take(range(real.shape[axis]), axis)
    elif axis is not None:
        spread = scales.reshape([-1 if each == axis else 1 for each in range(real.ndim)])
    codes = np.clip(real / spread, -of.largest, of.largest).astype(of.dtype)
    return codes, scales.astype(ml_dtypes.float8_e8m0fnu) if is_e8m0 else scales


def float_model(
    weights: str = "e4m3", axis: int | None = 1, block: int = 0, is_e8m0: bool = False, activations: str = "int8",
    rows: int = 4, seed: int = 0, opset: int = OPSET,
) -> onnx.ModelProto:  # fmt: skip
    """x [rows, 64] times a matrix [64, 32] of `weights`, between activations of int8 or of a type of few bits."""
    rng = np.random.default_rng(seed)
    real = rng.normal(0, 0.2, (SUMMED, RESULTS)).astype(np.float32)
    codes, scales = quantised(real, weights, axis, block, is_e8m0)
    constants = [numpy_helper.from_array(codes, "w"), numpy_helper.from_array(scales, "w_scale")]
    for name, largest in (("x", 3.0), ("y", LARGEST)):
        if activations in BY_SHORT_NAME:
            of = BY_SHORT_NAME[activations]
            step, zero = largest / of.largest, np.zeros((), of.dtype)
        else:
            step, zero = largest / 127, np.zeros((), activations)
        constants += [
            numpy_helper.from_array(np.asarray(step, np.float32), f"{name}_scale"),
            numpy_helper.from_array(zero, f"{name}_zero"),
        ]
    said = {"axis": 0 if block else axis, "block_size": block} if axis is not None else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_int"], "quantize"),
        helper.make_node("DequantizeLinear", ["x_int", "x_scale", "x_zero"], ["x_real"], "dequantize"),
        helper.make_node(
            "DequantizeLinear", ["w", "w_scale"], ["w_real"], "weights", output_dtype=TensorProto.FLOAT, **said
        ),
        helper.make_node("MatMul", ["x_real", "w_real"], ["y_exact"], "matmul"),
        helper.make_node("QuantizeLinear", ["y_exact", "y_scale", "y_zero"], ["y_int"], "quantize_y"),
        helper.make_node("DequantizeLinear", ["y_int", "y_scale", "y_zero"], ["y"], "dequantize_y"),
    ]
    if opset < 23:
        del nodes[2].attribute[[each.name for each in nodes[2].attribute].index("output_dtype")]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (rows, size))
        for name, size in (("x", SUMMED), ("y", RESULTS))
    ]
    graph = helper.make_graph(nodes, "floats", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def meaning(model: onnx.ModelProto, x: NDArray[np.float32], activations: str = "e4m3") -> NDArray[np.float64]:
    """What a `float_model` of float activations computes, in float64. ONNX's evaluator has sums of float32."""
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    of = BY_SHORT_NAME[activations]
    (reader,) = [node for node in model.graph.node if node.name == "weights"]
    block = next((each.i for each in reader.attribute if each.name == "block_size"), 0)
    scales = held["w_scale"].astype(np.float64)
    scales = scales.repeat(block, 0)[: held["w"].shape[0]] if block else scales
    weights = held["w"].astype(np.float64) * scales
    codes = of.nearest(x / held["x_scale"]) * of.least
    sums = codes * np.float64(held["x_scale"]) @ weights
    return of.nearest(sums / np.float64(held["y_scale"])) * of.least * np.float64(held["y_scale"])
