"""What the host resizes or unpools behind layers of the machine, in every opset, and as `quantize` writes it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.ends import CHANNELS, IMAGE, Network, Nodes

OPSETS = (13, 15, 17, 18, 19, 21)


def resized(mode: str, opset: int) -> Network:
    """A layer of the machine, and a Resize that aligns the corners; its linear and cubic ones are the host's."""
    n = Nodes()
    n.constants.append(numpy_helper.from_array(np.zeros(0, np.float32), "none"))
    by = n.constant(np.array([1, 1, 2, 2], np.float32))
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    n.output(n.node("Resize", n.conv(n.image("x", np.int8)), "none", by, **attributes))
    return n.network(opset)


def unpooled(opset: int) -> Network:
    """MaxPool with the places of its results, and back."""
    n = Nodes()
    x = n.conv(n.image("x", np.int8))
    n.named("MaxPool", [x], ["pooled", "places"], kernel_shape=[2, 2], strides=[1, 1])
    n.output(n.node("MaxUnpool", "pooled", "places", kernel_shape=[2, 2], strides=[1, 1]))
    return n.network(opset)


def require_right(network: Network) -> None:
    program = tilewright.compile(network.model.SerializeToString(), "base16", effort=0)
    (came,), (expected,) = (
        program.run(network.inputs).outputs.values(),
        run_onnx(network.model, network.inputs).values(),
    )
    assert "Conv" not in [node.op_type for node in program.host_nodes]
    assert np.array_equal(came, expected)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize(mode: str, opset: int) -> None:
    require_right(resized(mode, opset))


@pytest.mark.parametrize("opset", OPSETS)
def test_max_unpool(opset: int) -> None:
    require_right(unpooled(opset))


def test_a_resize_that_quantize_keeps() -> None:
    """`quantize --keep` writes it as it is, behind what is quantised."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.5, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32)
    constants = {"w": weights, "none": np.zeros(0, np.float32), "by": np.array([1, 1, 2, 2], np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node(
            "Resize", ["c", "none", "by"], ["y"], "up", mode="linear", coordinate_transformation_mode="align_corners"
        ),
    ]
    size = [1, CHANNELS, 2 * IMAGE[2], 2 * IMAGE[3]]
    graph = helper.make_graph(
        nodes,
        "kept",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, size)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    quantised = tilewright.quantize(
        model.SerializeToString(), {"x": rng.normal(0, 1, (8, *IMAGE[1:])).astype(np.float32)}, keep=["up"]
    )
    x = rng.normal(0, 1, IMAGE).astype(np.float32)
    program = tilewright.compile(quantised.model.SerializeToString(), "base16", effort=0)
    assert [node.op_type for node in program.host_nodes] == ["Resize"]
    expected = run_onnx(onnx.shape_inference.infer_shapes(quantised.model), {"x": x})["y"]
    assert np.abs(program.run({"x": x}).outputs["y"] - expected).max() < 0.05
