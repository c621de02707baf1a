"""Heads of a single token are pixels of their features, through all that works feature by feature."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.graph.interpreter import run_graph


def rotation(heads: int, width: int, tokens: int = 1) -> onnx.ModelProto:
    """A linear layer, its heads turned by angles that are inputs, the halves of a head being pairs of features."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (1, tokens, 32)), 0.1)
    cos, sin = (builder.quantize(builder.input(name, (1, 1, tokens, width)), 0.01, 0) for name in ("cos", "sin"))
    made = builder.quantize(builder.node("MatMul", [x, builder.weights("w", (32, heads * width), axis=1)[0]]), 0.3, 4)
    shape = builder.constant("shape", np.array((1, tokens, heads, width)))
    split = builder.quantize(builder.node("Reshape", [made, shape]), 0.3, 4)
    q = builder.quantize(builder.node("Transpose", [split], perm=[0, 2, 1, 3]), 0.3, 4)
    begins, middle, ends = (
        builder.constant(name, np.array([at])) for name, at in (("b", 0), ("m", width // 2), ("e", width))
    )
    axis = builder.constant("axis", np.array([3]))
    first = builder.quantize(builder.node("Slice", [q, begins, middle, axis]), 0.3, 4)
    second = builder.quantize(builder.node("Slice", [q, middle, ends, axis]), 0.3, 4)
    negative = builder.quantize(builder.node("Neg", [second]), 0.3, 4)
    swapped = builder.quantize(builder.node("Concat", [negative, first], axis=3), 0.3, 4)
    straight = builder.quantize(builder.node("Mul", [q, cos]), 0.3, 4)
    across = builder.quantize(builder.node("Mul", [swapped, sin]), 0.3, 4)
    builder.output(builder.quantize(builder.node("Add", [straight, across]), 0.3, 4))
    return builder.build("rotation")


@pytest.mark.parametrize("heads, width", [(2, 32), (6, 48), (4, 8), (3, 2)])
def test_turned_heads_are_computed_as_pixels(heads: int, width: int) -> None:
    model = rotation(heads, width)
    graph = simplified(model)
    shapes = {graph.tensors[o.outputs[0]].shape for o in graph.operators if o.kind in ("mul", "add")}
    assert shapes == {(1, width, 1, heads)}
    assert sum(operator.kind == "permute" for operator in graph.operators) == 1  # the host orders the result
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    assert compiled_distances(model, "base16").max() <= 1


def test_heads_of_many_tokens_stay_what_they_are() -> None:
    graph = simplified(rotation(2, 32, tokens=3))
    shapes = {graph.tensors[o.outputs[0]].shape for o in graph.operators if o.kind == "add"}
    assert shapes == {(1, 2, 3, 32)}
