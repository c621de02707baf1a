"""Pools with ceil_mode have the shapes that ONNX Runtime gives them, whatever the opset and whatever a file says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tilewright.compiler.importers.shapes import infer_shapes, known_shapes

SIZE = 7


def pools(
    kind: str, opset: int, attributes: dict[str, Any], declared: list[int] | None, chained: bool = False
) -> onnx.ModelProto:
    """One pool, or two of the same form after each other, and an Identity of the result."""
    rank = len(attributes["kernel_shape"])
    nodes = [helper.make_node(kind, ["x"], ["p0"], **attributes)]
    if chained:
        nodes.append(helper.make_node(kind, ["p0"], ["p1"], **attributes))
    nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *[SIZE] * rank])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, declared)
    graph = helper.make_graph(nodes, "pools", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def of_onnx_runtime(model: onnx.ModelProto) -> tuple[int, ...]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rank = len(model.graph.input[0].type.tensor_type.shape.dim)
    (result,) = session.run(None, {"x": np.zeros((1, 2, *[SIZE] * (rank - 2)), np.float32)})
    return result.shape


def random_form(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))
    kernel = rng.integers(1, 5, rank)
    form: dict[str, Any] = {"kernel_shape": kernel.tolist(), "strides": rng.integers(1, 5, rank).tolist()}
    if seed % 5 == 0:
        return {**form, "auto_pad": "VALID", "ceil_mode": 1}
    return {**form, "pads": rng.integers(0, np.concatenate([kernel, kernel])).tolist(), "ceil_mode": 1}


@pytest.mark.parametrize("opset", [11, 13, 18, 19, 21, 22])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_every_form_has_the_shape_that_onnx_runtime_gives(kind: str, opset: int) -> None:
    for seed in range(60):
        form = random_form(seed)
        for chained in (False, True):
            model = pools(kind, opset, form, None, chained)
            expected = of_onnx_runtime(model)
            if min(expected) < 1:
                continue
            assert known_shapes(infer_shapes(model))["y"] == expected, (seed, form, chained)


LATE = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
"""Over seven elements, the last of five windows begins behind them."""


@pytest.mark.parametrize("declared", [[1, 2, 4, 4], [1, 2, 5, 5], ["n", "c", "h", "w"], None])
def test_the_files_own_shapes_do_not_count(declared: list[int] | None) -> None:
    model = pools("MaxPool", 17, LATE, declared)
    model.graph.value_info.append(helper.make_tensor_value_info("p0", TensorProto.FLOAT, [1, 2, 5, 5]))
    inferred = infer_shapes(model)
    assert known_shapes(inferred)["p0"] == known_shapes(inferred)["y"] == (1, 2, 4, 4)
    assert inferred.graph.node[0] == model.graph.node[0]


def test_other_shapes_that_do_not_fit_are_refused_as_before() -> None:
    model = pools("MaxPool", 17, {**LATE, "ceil_mode": 0}, [1, 2, 5, 5])
    with pytest.raises(onnx.shape_inference.InferenceError):
        infer_shapes(model)
