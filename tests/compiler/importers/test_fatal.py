"""What the onnx package does not survive never reaches it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright
from tilewright.compiler.errors import CompileError


def split(name: str = "cut") -> onnx.NodeProto:
    """A Split into three that says 1."""
    return helper.make_node("Split", ["x"], ["a", "b", "c"], name, axis=1, num_outputs=1)


def model(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])
    results = [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 2])]
    graph = helper.make_graph(list(nodes), "g", [x], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def inside() -> onnx.NodeProto:
    branch = helper.make_graph([split()], "b", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)])
    return helper.make_node("If", ["x"], ["a"], "if", then_branch=branch, else_branch=branch)


@pytest.mark.parametrize("broken", [model(split()), model(inside())], ids=["in the graph", "in a branch"])
def test_a_split_that_ends_the_process_is_refused(broken: onnx.ModelProto) -> None:
    with pytest.raises(CompileError) as caught:
        tilewright.compile(broken, "base16")
    assert str(caught.value) == "node 'cut' (Split): num_outputs = 1 for 3 results; expected as many of both"


def test_nor_is_it_quantised() -> None:
    with pytest.raises(CompileError, match="a Split: num_outputs = 1 for 3 results"):
        tilewright.quantize(model(split("")), [{"x": np.zeros((1, 6), np.float32)}])
