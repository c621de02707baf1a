"""What reorders a joined tensor reorders its parts, if the host has one of them to order."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.interpreter import run_graph

HEADS, PLACES, FEATURES = 2, 6, 16
CACHED = HEADS * PLACES * FEATURES
"""Elements of a cache, the largest tensor of the step."""


def step(*, is_key: bool = True, step_of_cache: float = 0.1, is_cache_read: bool = False) -> onnx.ModelProto:
    """A row for each head times a cache and, beside it, one more token: q · kᵀ if `is_key`, p · v if not."""
    builder = ModelBuilder(np.random.default_rng(0))
    cache = builder.quantize(builder.input("cache", (1, HEADS, PLACES, FEATURES)), step_of_cache, 5)
    token = builder.quantize(builder.input("token", (1, HEADS * FEATURES)), 0.1, 5)
    made = builder.node("Sigmoid", [token])
    heads = builder.constant("heads", np.array((1, HEADS, 1, FEATURES)))
    own = builder.quantize(builder.node("Reshape", [builder.quantize(made, 0.1, 5), heads]), 0.1, 5)
    joint = builder.quantize(builder.node("Concat", [cache, own], name="joint", axis=2), 0.1, 5)
    row = builder.quantize(builder.input("row", (1, HEADS, 1, FEATURES if is_key else PLACES + 1)), 0.1)
    if is_key:
        joint = builder.quantize(builder.node("Transpose", [joint], name="turned", perm=[0, 1, 3, 2]), 0.1, 5)
    builder.output(builder.quantize(builder.node("MatMul", [row, joint], name="product"), 3.0))
    if is_cache_read:
        builder.output(builder.quantize(builder.node("Relu", [cache]), 0.1, 5), "cache_out")
    return builder.build("step")


def most_moved(graph: Graph) -> int:
    """Elements of the largest tensor that the machine reorders."""
    moves = [operator for operator in graph.operators if operator.kind == "permute"]
    return max((int(np.prod(graph.tensors[move.outputs[0]].shape)) for move in moves), default=0)


@pytest.mark.parametrize("step_of_cache", [0.1, 0.07])
@pytest.mark.parametrize("is_key", [True, False])
def test_a_cache_is_not_moved(is_key: bool, step_of_cache: float) -> None:
    model = step(is_key=is_key, step_of_cache=step_of_cache)
    graph = simplified(model)
    assert most_moved(graph) < CACHED
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    assert compiled_distances(model, "base16").max() <= 1


@pytest.mark.parametrize("is_key", [True, False])
def test_keys_and_values_have_a_pixel_for_each_place(is_key: bool) -> None:
    graph = simplified(step(is_key=is_key))
    (joint,) = (operator for operator in graph.operators if operator.kind == "concat")
    assert graph.tensors[joint.outputs[0]].shape == (HEADS, FEATURES, 1, PLACES + 1)


def test_a_cache_that_others_read_stays_as_they_read_it() -> None:
    model = step(is_cache_read=True)
    graph = simplified(model)
    assert most_moved(graph) >= CACHED
    (joint,) = (operator for operator in graph.operators if operator.kind == "concat")
    assert graph.tensors[joint.outputs[0]].shape == (1, HEADS, PLACES + 1, FEATURES)
    inputs = random_inputs(model, np.random.default_rng(1))
    expected = run_onnx(model, inputs)
    for name, found in run_graph(graph, inputs).items():
        np.testing.assert_array_equal(found, expected[name])


def test_a_reshape_across_the_joined_dimension_stays_behind_it() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    parts = [builder.quantize(builder.input(name, (1, 2, 3, 16)), 0.1, 5) for name in ("a", "b")]
    joint = builder.quantize(builder.node("Concat", parts, name="joint", axis=2), 0.1, 5)
    shape = builder.constant("shape", np.array((1, 12, 16)))
    rows = builder.quantize(builder.node("Reshape", [joint, shape], name="rows"), 0.1, 5)
    builder.output(builder.quantize(builder.node("MatMul", [rows, builder.weights("w", (16, 8), axis=1)[0]]), 0.3))
    model = builder.build("rows")
    (found,) = (operator for operator in simplified(model).operators if operator.kind == "concat")
    assert simplified(model).tensors[found.outputs[0]].shape == (1, 2, 6, 16)
    assert compiled_distances(model, "base16").max() <= 1
