"""Normalisations in the forms that exporters write: each becomes one operator, with ONNX Runtime's values."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.normalizations import FORMS, normalizing_model
from tests.compiler.pipelines import simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph


@pytest.mark.parametrize("form", FORMS)
def test_becomes_one_operator(form: str) -> None:
    model = normalizing_model(form, (2, 3, 20))
    graph = simplified(model)
    assert [operator.kind for operator in graph.operators].count("normalize") == 1
    assert {operator.kind for operator in graph.operators} <= {
        *("quantize", "transpose", "reshape", "normalize", "dequantize")
    }
    inputs = random_inputs(model, np.random.default_rng(1))
    found, expected = run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"]
    assert np.abs(found - expected).max() <= 1.01 * 0.03
    assert (found == expected).mean() >= 0.995


def test_names_every_node_that_it_computes() -> None:
    graph = simplified(normalizing_model("divided", (2, 20)))
    (normalize,) = (operator for operator in graph.operators if operator.kind == "normalize")
    kinds = {node.rstrip("0123456789") for node in normalize.nodes}
    assert {"reducemean", "sub", "pow", "add", "sqrt", "div", "mul"} <= kinds


@pytest.mark.parametrize("axes", [[1], [0, 2]])
def test_a_mean_along_other_dimensions_is_left_alone(axes: list[int]) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (2, 3, 20)), 0.05, name="x.q")
    apart = builder.node("Sub", [x, builder.node("ReduceMean", [x], axes=axes, keepdims=1)])
    mean = builder.node("ReduceMean", [builder.node("Mul", [apart, apart])], axes=axes, keepdims=1)
    root = builder.node("Sqrt", [builder.node("Add", [mean, builder.constant("e", np.float32(1e-3))])])
    builder.output(builder.quantize(builder.node("Div", [apart, root]), 0.03, name="y.q"))
    with pytest.raises(CompileError):
        simplified(builder.build("other"))


def test_a_mean_of_something_else_is_no_normalisation() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (2, 20)), 0.05, name="x.q")
    z = builder.quantize(builder.input("z", (2, 20)), 0.05, name="z.q")
    mean = builder.node("ReduceMean", [builder.node("Mul", [z, z])], axes=[-1], keepdims=1)
    root = builder.node("Sqrt", [builder.node("Add", [mean, builder.constant("e", np.float32(1e-3))])])
    builder.output(builder.quantize(builder.node("Div", [x, root]), 0.03, name="y.q"))
    with pytest.raises(CompileError):
        simplified(builder.build("other"))


def test_a_deviation_that_is_read_too_is_refused() -> None:
    model = normalizing_model("one node", (2, 20))
    node = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    node.output.extend(["mean"])
    model.graph.output.append(onnx.helper.make_tensor_value_info("mean", onnx.TensorProto.FLOAT, (2, 1)))
    with pytest.raises(CompileError, match="its mean or its deviation is read, too; expected only its first result"):
        simplified(model)


@pytest.mark.parametrize(
    ("scale", "epsilon", "message"),
    [
        (np.ones(3), 1e-5, "its scale is [3]; expected one for rows of [20]"),
        (np.ones((2, 20)), 1e-5, "its scale is [2, 20]; expected one for rows of [20]"),
        (np.full(20, np.inf), 1e-5, "its scale is not finite; expected finite numbers"),
        (np.ones(20), -1.0, "epsilon = -1; expected no negative number"),
    ],
)
def test_refuses_parameters_that_fit_no_row(scale: NDArray[np.float64], epsilon: float, message: str) -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (2, 20)), 0.05, name="x.q")
    gamma = builder.constant("gamma", scale.astype(np.float32))
    y = builder.node("LayerNormalization", [x, gamma], name="norm", epsilon=epsilon)
    builder.output(builder.quantize(y, 0.03, name="y.q"))
    with pytest.raises(CompileError, match=re.escape(f"node 'norm' (LayerNormalization): {message}")):
        simplified(builder.build("wrong"))
