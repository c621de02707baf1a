"""Matrices that are repeated for several others are not copied: the rows of those others make one product."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.interpreter import run_graph

GROUPS, TIMES, ROWS, INNER, COLUMNS = 2, 3, 4, 16, 5


def product(is_turned: bool, *, step: float = 0.1, with_quantization: bool = True) -> onnx.ModelProto:
    """x [1, 6, 4, 16] times the 2 matrices of z, each three times in a row; `step` is that of the copies."""
    builder = ModelBuilder(np.random.default_rng(0))
    matrix = (COLUMNS, INNER) if is_turned else (INNER, COLUMNS)
    x = builder.quantize(builder.input("x", (1, GROUPS * TIMES, ROWS, INNER)), 0.1)
    z = builder.quantize(builder.input("z", (1, GROUPS, *matrix)), 0.1, 5)

    def after(value: str, scale: float = 0.1) -> str:
        return builder.quantize(value, scale, 5) if with_quantization else value

    wide = after(builder.node("Unsqueeze", [z, builder.constant("axis", np.array([2]))], name="wide"))
    sizes = builder.constant("sizes", np.array((1, GROUPS, TIMES, *matrix)))
    copies = after(builder.node("Expand", [wide, sizes], name="copies"), step)
    shape = builder.constant("shape", np.array((1, GROUPS * TIMES, *matrix)))
    whole = after(builder.node("Reshape", [copies, shape], name="whole"), step)
    if is_turned:
        whole = after(builder.node("Transpose", [whole], name="turn", perm=[0, 1, 3, 2]), step)
    builder.output(builder.quantize(builder.node("MatMul", [x, whole], name="product"), 0.3))
    return builder.build("repeated")


def matrices(graph: Graph) -> int:
    """Of the second operand of the only product."""
    (found,) = (operator for operator in graph.operators if operator.kind == "product")
    return graph.tensors[found.inputs[1]].shape[0]


@pytest.mark.parametrize("with_quantization", [True, False])
@pytest.mark.parametrize("is_turned", [True, False])
def test_each_is_multiplied_once(is_turned: bool, with_quantization: bool) -> None:
    model = product(is_turned, with_quantization=with_quantization)
    graph = simplified(model)
    assert matrices(graph) == GROUPS and "take" not in {operator.kind for operator in graph.operators}
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    assert compiled_distances(model, "base16").max() <= 1


def test_copies_of_other_steps_stay_what_they_are() -> None:
    model = product(False, step=0.2)
    graph = simplified(model)
    assert matrices(graph) == GROUPS * TIMES
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
