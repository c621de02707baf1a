"""Elementwise operators on tensors of more than four dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import compiled_distances, distances, lowered, simplified
from tests.compiler.simplify.graphs import only
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.interpreter import run_nests

SHAPE = (2, 3, 4, 5, 6)


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Tanh"])
@pytest.mark.parametrize("constant", [False, True])
def test_is_computed_on_four(op_type: str, constant: bool) -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    operands = [builder.quantize(builder.input("x", SHAPE), 0.1)]
    if op_type != "Tanh":
        other = builder.constant("c", builder.rng.normal(size=SHAPE).astype(np.float32) * 5)
        operands.append(builder.quantize(other if constant else builder.input("z", SHAPE), 0.1))
    builder.output(builder.quantize(builder.node(op_type, operands, name="op"), 1.0))
    model = rescaled(builder.build())
    kind = {"Tanh": "lookup"}.get(op_type, op_type.lower())
    graph = simplified(model)
    assert graph.tensors[only(graph, kind).outputs[0]].shape == (6, 4, 5, 6)
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1
    assert compiled_distances(model, "base16").max() <= 1


@pytest.mark.parametrize(
    ("shape", "joined"),
    [((2, 3, 1, 5, 6), (2, 3, 4, 30)), ((1, 3, 4, 5, 6), (2, 12, 5, 6)), ((2, 3, 4, 5, 1), (6, 4, 5, 6))],
)
@pytest.mark.parametrize("constant", [False, True])
def test_one_that_is_broadcast_is_joined_alike(shape: tuple[int, ...], joined: tuple[int, ...], constant: bool) -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", SHAPE), 0.1)
    other = builder.constant("c", builder.rng.normal(size=shape).astype(np.float32) * 5)
    z = builder.quantize(other if constant else builder.input("z", shape), 0.1)
    builder.output(builder.quantize(builder.node("Mul", [x, z], name="op"), 1.0))
    model = rescaled(builder.build())
    graph = simplified(model)
    if not constant:
        assert graph.tensors[only(graph, "mul").outputs[0]].shape == joined
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1
    assert compiled_distances(model, "base16").max() <= 1


def test_one_that_is_broadcast_in_turns_is_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    x, z = (builder.quantize(builder.input(name, shape), 0.1) for name, shape in (("x", SHAPE), ("z", (2, 1, 4, 1, 6))))
    builder.output(builder.quantize(builder.node("Add", [x, z], name="op"), 1.0))
    with pytest.raises(CompileError) as refused:
        lowered(rescaled(builder.build()))
    assert "5 dimensions" in str(refused.value)
