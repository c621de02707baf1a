"""Outputs whose types a file leaves open have those that their nodes give."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.importers.shapes import known_shape


def model(declared: onnx.ValueInfoProto) -> onnx.ModelProto:
    """A Relu of [1, 3], with its result declared so."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [declared])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def untyped(has_tensor: bool) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name="y")
    if has_tensor:
        value.type.tensor_type.SetInParent()
    return value


OPEN = {
    "no shape": helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    "a size of -1": helper.make_tensor_value_info("y", TensorProto.FLOAT, [-1, 3]),
    "sizes of -1": helper.make_tensor_value_info("y", TensorProto.FLOAT, [-1, -1]),
    "a size of 0": helper.make_tensor_value_info("y", TensorProto.FLOAT, [0, 3]),
    "a symbol": helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3]),
    "no type": untyped(False),
    "a tensor of no type": untyped(True),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_open_output_has_the_type_that_is_inferred(name: str) -> None:
    graph = import_onnx(model(OPEN[name]).SerializeToString())
    assert (graph.tensors["y"].dtype, graph.tensors["y"].shape) == ("float32", (1, 3))


def test_sizes_of_intermediate_results_may_be_open_too() -> None:
    made = model(OPEN["no shape"])
    made.graph.node[0].output[0] = "middle"
    made.graph.node.append(helper.make_node("Neg", ["middle"], ["y"]))
    made.graph.value_info.append(helper.make_tensor_value_info("middle", TensorProto.FLOAT, [-1, 3]))
    assert import_onnx(made.SerializeToString()).tensors["middle"].shape == (1, 3)


@pytest.mark.parametrize("sizes", [[1, 4], [3]])
def test_a_wrong_shape_is_refused(sizes: list[int]) -> None:
    declared = helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)
    assert known_shape(declared) == tuple(sizes)
    with pytest.raises(CompileError, match="shapes do not fit"):
        import_onnx(model(declared).SerializeToString())
