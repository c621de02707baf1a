"""What depends on constants only is an initialiser once a model is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.compiler.importers.import_onnx import finish_onnx, read_onnx

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def read(nodes: list[onnx.NodeProto], **constants: object) -> onnx.GraphProto:
    """A model's graph as the compiler reads it."""
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [X], [Y], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    finished, _ = finish_onnx(*read_onnx(model.SerializeToString()))
    return finished.graph


def kinds(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def value(graph: onnx.GraphProto, name: str) -> NDArray[Any]:
    return next(numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name == name)


NODE = helper.make_node


def test_a_chain_on_constants_is_its_value() -> None:
    graph = read([NODE("Add", ["a", "b"], ["c"]), NODE("Sqrt", ["c"], ["d"]), NODE("Mul", ["x", "d"], ["y"])],
                 a=np.float32([1, 4, 9]), b=np.float32([3, 5, 7]))  # fmt: skip
    assert kinds(graph) == ["Mul"]
    np.testing.assert_array_equal(value(graph, "d"), [2, 3, 4])
    assert "c" not in [tensor.name for tensor in graph.initializer]


def test_quantised_constants_stay_quantised_where_they_are_only_ordered() -> None:
    nodes = [
        NODE("DequantizeLinear", ["q", "s", "z"], ["w"]), NODE("Transpose", ["w"], ["t"], perm=[1, 0]),
        NODE("MatMul", ["x", "t"], ["y"]),
    ]  # fmt: skip
    assert kinds(read(nodes, q=np.ones((4, 3), np.int8), s=np.float32(0.5), z=np.int8(0))) == [
        "DequantizeLinear", "Transpose", "MatMul",
    ]  # fmt: skip


def test_what_computes_of_quantised_constants_is_evaluated_as_the_file_means_it() -> None:
    nodes = [
        NODE("DequantizeLinear", ["q", "s", "z"], ["w"]), NODE("Transpose", ["w"], ["t"], perm=[1, 0]),
        NODE("Neg", ["t"], ["n"]), NODE("QuantizeLinear", ["n", "s", "z"], ["m"]),
        NODE("DequantizeLinear", ["m", "s", "z"], ["v"]), NODE("MatMul", ["x", "v"], ["y"]),
    ]  # fmt: skip
    graph = read(nodes, q=np.int8([[-128, 1, 2]]), s=np.float32(0.5), z=np.int8(3))
    assert kinds(graph)[-2:] == ["DequantizeLinear", "MatMul"]
    np.testing.assert_array_equal(value(graph, "m"), [[127], [5], [4]])  # -(-131) + 3 saturates; -(-2) + 3; -(-1) + 3


def test_a_known_shape_is_a_constant_and_tells_other_shapes() -> None:
    nodes = [
        NODE("Shape", ["x"], ["s"]), NODE("Cast", ["s"], ["f"], to=TensorProto.FLOAT), NODE("Sqrt", ["f"], ["r"]),
        NODE("Ceil", ["r"], ["c"]), NODE("Cast", ["c"], ["i"], to=TensorProto.INT64),
        NODE("Expand", ["x3", "i"], ["e"]), NODE("Concat", ["x", "xx"], ["u"], axis=0),
        NODE("Reshape", ["u", "target"], ["y"]), NODE("Mul", ["i", "two"], ["double"]),
        NODE("Slice", ["double", "zero", "one"], ["head"]), NODE("Concat", ["head", "three"], ["target"], axis=0),
    ]  # fmt: skip
    nodes = [*nodes[:7], *nodes[8:], nodes[7]]
    graph = read(nodes, x3=np.ones((1, 1), np.float32), xx=np.ones((2, 3), np.float32), two=np.int64(2),
                 zero=np.int64([0]), one=np.int64([1]), three=np.int64([3]))  # fmt: skip
    assert kinds(graph) == ["Concat", "Reshape"]
    assert [size.dim_value for size in graph.output[0].type.tensor_type.shape.dim] == [4, 3]


@pytest.mark.parametrize("kind", ["RandomUniformLike", "Bernoulli"])
def test_what_varies_stays(kind: str) -> None:
    graph = read([NODE(kind, ["a"], ["r"]), NODE("Add", ["x", "r"], ["y"])], a=np.zeros((2, 3), np.float32))
    assert kinds(graph) == [kind, "Add"]


def test_names_do_not_depend_on_what_is_gone() -> None:
    graph = read([NODE("Neg", ["a"], ["c"]), NODE("Add", ["x", "c"], ["y"])], a=np.float32([1, 2, 3]))
    assert [node.name for node in graph.node] == ["Add_1"]
