"""InstanceNormalization and GroupNormalization of float networks: eight bits before and after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.models import run_onnx

GROUPS = ("GroupNormalization", {"num_groups": 4, "epsilon": 1e-2})
INSTANCES = ("InstanceNormalization", {})
QDQ = ("QuantizeLinear", "DequantizeLinear")
RNG = np.random.default_rng(5)


def model(operator: str, shape: Sequence[int], *, computed: bool = False, **attributes: Any) -> onnx.ModelProto:
    """A normalisation, then a Relu; of opset 21. The scales are constants, or an input."""
    channels = shape[1]
    scale = numpy_helper.from_array(np.linspace(-0.5, 2, channels).astype(np.float32), "scale")
    bias = numpy_helper.from_array(np.linspace(1, -1, channels).astype(np.float32), "bias")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if computed:
        inputs.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, [channels]))
    nodes = [
        helper.make_node(operator, ["x", "scale", "bias"], ["n"], "norm", **attributes),
        helper.make_node("Relu", ["n"], ["y"], "relu"),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "norms", inputs, [result], [bias] if computed else [scale, bias])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def operators(made: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


def samples(shape: Sequence[int]) -> NDArray[np.float32]:
    """Channels of different means and widths."""
    channels = (1, shape[1], *[1] * (len(shape) - 2))
    spread, middle = RNG.uniform(0.5, 2, channels), RNG.normal(0, 1, channels)
    return (RNG.standard_normal((4, *shape)) * spread + middle).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 32, 8, 8), pytest.param((1, 20, 7, 9), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("operator", "attributes"), [GROUPS, INSTANCES], ids=["groups", "instances"])
def test_runs_wholly_on_the_machine(operator: str, attributes: dict[str, Any], shape: Sequence[int]) -> None:
    """With the noise of eight bits at the input and at the output."""
    given, data = model(operator, shape, **attributes), samples(shape)
    program = tilewright.compile(tilewright.quantize(given, {"x": data}).content, "sequence16", effort=0)
    assert program.host_nodes == ()
    exact, found = run_onnx(given, {"x": data[0]})["y"], program.run({"x": data[0]}).outputs["y"]
    assert 10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum()) > 33


def test_loses_no_more_than_the_rounding_of_its_result() -> None:
    """Between its operand in eight bits and its result in eight bits, nothing is rounded to eight bits."""
    given, data = model("InstanceNormalization", (1, 16, 8, 8)), samples((1, 16, 8, 8))
    quantized = tilewright.quantize(given, {"x": data})
    kinds = [node.op_type for node in quantized.model.graph.node]
    assert kinds == [*QDQ, "InstanceNormalization", *QDQ]


def test_what_is_to_be_kept_stays_float() -> None:
    given = model("InstanceNormalization", (1, 8, 4, 4))
    quantized = tilewright.quantize(given, {"x": samples((1, 8, 4, 4))}, keep=["norm"])
    assert operators(quantized.model)[0] == "InstanceNormalization"


def test_one_may_follow_another() -> None:
    """The onnx package infers no shape of the result of a GroupNormalization."""
    given, shape = model("GroupNormalization", (1, 8, 4, 4), num_groups=2), (1, 8, 4, 4)
    again = helper.make_node("GroupNormalization", ["n", "scale", "bias"], ["m"], "again", num_groups=4)
    given.graph.node.insert(1, again)
    given.graph.node[2].input[0] = "m"
    program = tilewright.compile(tilewright.quantize(given, {"x": samples(shape)}).content, "sequence16", effort=0)
    assert program.host_nodes == ()
