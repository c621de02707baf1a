"""The host is ONNX Runtime; the reference evaluator gets what ONNX Runtime computes otherwise, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import run_onnx
from tilewright.host.model import HostModel
from tilewright.host.pieces import pieces_of

X = np.arange(16, dtype=np.int8).reshape(1, 1, 4, 4)

NO_SIZES = np.zeros(0, np.float32)


def between_quantizers(opset: int, kind: str, *constants: Any, **attributes: Any) -> onnx.ModelProto:
    """int8 → DequantizeLinear → a node → Neg, the result."""
    values = {"s": np.float32(0.5), "z": np.int8(0), **{f"c{at}": value for at, value in enumerate(constants)}}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
        helper.make_node(kind, ["real", *(f"c{at}" for at in range(len(constants)))], ["made"], **attributes),
        helper.make_node("Neg", ["made"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "host",
        [helper.make_tensor_value_info("x", TensorProto.INT8, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def resized(opset: int, mode: str, scale: float | None, size: int = 0) -> onnx.ModelProto:
    by = [NO_SIZES, np.array([1, 1, scale or 1, scale or 1], np.float32)] if scale else [NO_SIZES, NO_SIZES]
    sizes = [] if scale else [np.array([1, 1, size, size])]
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    return between_quantizers(opset, "Resize", *by, *sizes, **attributes)


def unpooled(opset: int, *shape: Any) -> onnx.ModelProto:
    indices = np.array([[[[0, 3, 17, 18], *([20 + at * 4 + n for n in range(4)] for at in range(3))]]])
    return between_quantizers(opset, "MaxUnpool", indices, *shape, kernel_shape=[2, 2], strides=[2, 2])


def result(model: onnx.ModelProto) -> Any:
    return HostModel(model.SerializeToString()).run(["y"], {"x": X})["y"]


@pytest.mark.parametrize("opset", [11, 13, 16, 18, 19, 21])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize(("scale", "size"), [(2, 0), (3, 0), (0.5, 0), (1.25, 0), (None, 7)])
def test_whole_sizes_are_resized_by_onnx_runtime(opset: int, mode: str, scale: float | None, size: int) -> None:
    model = resized(opset, mode, scale, size)
    assert [piece.is_otherwise for piece in pieces_of(model)] == [False]
    assert np.array_equal(result(model), run_onnx(model, {"x": X})["y"])


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_one_node_is_computed_as_onnx_means_it(opset: int) -> None:
    """4 · 0.6 = 2.4 pixels lie 3 / 1.4 of the old ones apart; the old ones are -0, -0.5, -1, -1.5 of a row."""
    model = resized(opset, "linear", 0.6)
    assert [piece.is_otherwise for piece in pieces_of(model)] == [False, True, False]
    step = 3 / 1.4
    expected = -np.array([[0, step], [4 * step, 5 * step]]) / 2
    assert np.allclose(result(model)[0, 0], expected, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_unpooling_by_onnx_runtime_and_with_a_shape(opset: int) -> None:
    plain, shaped = unpooled(opset), unpooled(opset, np.array([1, 1, 9, 9]))
    assert [piece.is_otherwise for piece in pieces_of(plain)] == [False]
    assert np.array_equal(result(plain), run_onnx(plain, {"x": X})["y"])
    assert [piece.is_otherwise for piece in pieces_of(shaped)] == [False, True, False]
    assert result(shaped).shape == (1, 1, 9, 9)
    assert sorted(result(shaped).ravel().tolist())[:15] == sorted((X * -0.5).ravel().tolist())[:15]
