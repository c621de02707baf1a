"""A softmax between products is computed where the first leaves the scores, whatever shapes stand between them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.graph.interpreter import run_graph

GROUPS, ROWS, FEATURES, KEYS = 2, 3, 16, 5


def attention(mask_rows: int = 0) -> onnx.ModelProto:
    """Rows of each group times its keys; the softmax is of [1, 6, 1, 5], its result times the values of each group."""
    builder = ModelBuilder(np.random.default_rng(0))
    q = builder.quantize(builder.input("q", (1, GROUPS, ROWS, FEATURES)), 0.1, 5)
    k = builder.quantize(builder.input("k", (1, GROUPS, FEATURES, KEYS)), 0.1, 5)
    v = builder.quantize(builder.input("v", (1, GROUPS, KEYS, FEATURES)), 0.1, 5)
    scores = builder.quantize(builder.node("MatMul", [q, k]), 0.2, 5)
    each = builder.constant("each", np.array((1, GROUPS * ROWS, 1, KEYS)))
    scores = builder.quantize(builder.node("Reshape", [scores, each]), 0.2, 5)
    if mask_rows:
        later = np.where(
            np.arange(mask_rows * KEYS).reshape(mask_rows, 1, KEYS) % 4 == 3, np.float32(-1e9), np.float32(0)
        )
        scores = builder.node("Add", [scores, builder.constant("mask", later.astype(np.float32))])
    shares = builder.quantize(builder.node("Softmax", [scores], axis=3), 1 / 255, -128)
    together = builder.constant("together", np.array((1, GROUPS, ROWS, KEYS)))
    shares = builder.quantize(builder.node("Reshape", [shares, together]), 1 / 255, -128)
    builder.output(builder.quantize(builder.node("MatMul", [shares, v]), 0.1, 5))
    return builder.build("attention")


def test_a_softmax_moves_nothing_between_products() -> None:
    model = attention()
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    assert graph.tensors[softmax.outputs[0]].shape == (GROUPS, KEYS, 1, ROWS)
    assert "permute" not in {operator.kind for operator in graph.operators}
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_allclose(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"], atol=0.11)
    assert compiled_distances(model, "vector16").max() <= 2


@pytest.mark.parametrize("mask_rows", [1, GROUPS * ROWS])
def test_a_mask_keeps_its_rows(mask_rows: int) -> None:
    model = attention(mask_rows)
    inputs = random_inputs(model, np.random.default_rng(1))
    found = run_graph(simplified(model), inputs)["result"]
    np.testing.assert_allclose(found, run_onnx(model, inputs)["result"], atol=0.11)
