"""Integers that are read with another scale than they were made with: never ours silently, always the file's meaning.

ONNX Runtime without optimisations says what is right.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright

SHAPE = (1, 8, 4, 4)
MADE, READ, RESULT = ("made", "made_zero"), ("read", "read_zero"), ("result", "result_zero")
CONSTANTS = {
    "made": np.float32(0.02), "made_zero": np.uint8(0), "read": np.float32(0.03), "read_zero": np.uint8(100),
    "result": np.float32(0.05), "result_zero": np.uint8(50), "weight": np.float32(0.01), "weight_zero": np.int8(0),
}  # fmt: skip
ATTRIBUTES = {"MaxPool": {"kernel_shape": [2, 2]}, "AveragePool": {"kernel_shape": [2, 2]}}
OF_TWO = ("Mul", "Add")
MICROSOFT = "com.microsoft"


def reader(kind: str, source: str) -> list[onnx.NodeProto]:
    """An operator on integers that are read with a scale of its own."""
    other = ("q", *MADE) if kind.removeprefix("QLinear") in OF_TWO else ()
    if kind == "QLinearConv":
        inputs = (source, *READ, "w", "weight", "weight_zero", *RESULT)
        return [helper.make_node(kind, inputs, ["integers"])]
    if kind.startswith("QLinear"):
        return [helper.make_node(kind, (source, *READ, *other, *RESULT), ["integers"], domain=MICROSOFT)]
    nodes = [helper.make_node("DequantizeLinear", (source, *READ), ["a"])]
    if other:
        nodes.append(helper.make_node("DequantizeLinear", other, ["b"]))
    nodes.append(helper.make_node(kind, ["a", "b"] if other else ["a"], ["real"], **ATTRIBUTES.get(kind, {})))
    return [*nodes, helper.make_node("QuantizeLinear", ("real", *RESULT), ["integers"])]


def model_of(maker: str, kind: str) -> onnx.ModelProto:
    weights = np.random.default_rng(0).integers(-9, 9, (8, 8, 1, 1)).astype(np.int8)
    nodes = [helper.make_node("QuantizeLinear", ("x", *MADE), ["q"])]
    if maker == "QLinearConv":
        nodes.append(helper.make_node(maker, ("q", *MADE, "w", "weight", "weight_zero", *MADE), ["made_integers"]))
    elif maker == "QLinearSigmoid":
        nodes.append(helper.make_node(maker, ("q", *MADE, *MADE), ["made_integers"], domain=MICROSOFT))
    else:
        nodes.append(helper.make_node("DequantizeLinear", ("q", *MADE), ["real_q"]))
        nodes.append(helper.make_node(maker, ["real_q"], ["real_made"]))
        nodes.append(helper.make_node("QuantizeLinear", ("real_made", *MADE), ["made_integers"]))
    nodes += reader(kind, "made_integers")
    nodes.append(helper.make_node("DequantizeLinear", ("integers", *RESULT), ["y"]))
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in CONSTANTS.items()]
    graph = helper.make_graph(
        nodes,
        "other_scale",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [*stored, numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("maker", ["QLinearConv", "QLinearSigmoid", "Relu"])
@pytest.mark.parametrize(
    "kind",
    [
        *("QLinearMul", "QLinearAdd", "QLinearConv", "QLinearSigmoid", "Mul", "Add", "Relu", "Sigmoid", "HardSwish"),
        *("MaxPool", "AveragePool", "GlobalAveragePool", "Softmax"),
    ],
)
def test_what_is_read_with_another_scale_has_that_meaning(maker: str, kind: str) -> None:
    model = model_of(maker, kind)
    x = np.random.default_rng(1).uniform(-1, 4, SHAPE).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    (got,) = tilewright.compile(model, "base16", effort=0).run({"x": x}).outputs.values()
    assert np.abs(got - expected).max() / CONSTANTS["result"] < 1.01
