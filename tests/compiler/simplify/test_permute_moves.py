"""Which reshapes and transpositions move elements, and which only name a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import distances, lowered, simplified
from tests.compiler.simplify.graphs import GraphBuilder, assert_same, kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.simplify.permute_moves import permute_moves
from tilewright.compiler.simplify.refold import refold

Moves = list[tuple[str, list[int]]]
"""Transpose with its axes, or Reshape with its shape."""


def model_of(
    moves: Moves, shape: tuple[int, ...] = (1, 8, 4, 6), *, first: bool = True, last: bool = True
) -> onnx.ModelProto:
    """An input, a pool, moves, a pool, an output; without the first or last pool the moves are at that end."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", shape), 0.1)
    pool: dict[str, Any] = {"kernel_shape": [1, 2], "strides": [1, 1]}
    x = builder.node("MaxPool", [x], **pool) if first else x
    for position, (op_type, numbers) in enumerate(moves):
        if op_type == "Transpose":
            x = builder.node("Transpose", [x], name=f"move{position}", perm=numbers)
        else:
            to = builder.constant(f"shape{position}", np.array(numbers, np.int64))
            x = builder.node("Reshape", [x, to], name=f"move{position}")
    builder.output(builder.node("MaxPool", [x], **pool) if last else x)
    return rescaled(builder.build())


def permutes(model: onnx.ModelProto) -> list[Operator]:
    """The permutes of a model's graph, which is also checked to compute the same, as its nests do."""
    graph, nests = simplified(model), lowered(model)
    for run in (lambda inputs: run_graph(graph, inputs), lambda inputs: run_nests(nests, inputs)):
        assert distances(model, run, 2).max() == 0
    return [operator for operator in graph.operators if operator.kind == "permute"]


MIDDLE: dict[str, tuple[Moves, tuple[int, ...], tuple[int, ...]]] = {
    "channels and rows": ([("Transpose", [0, 2, 1, 3])], (8, 4, 5), (1, 0, 2)),
    "two in a row": ([("Transpose", [0, 2, 3, 1]), ("Transpose", [0, 2, 1, 3])], (8, 4, 5), (2, 1, 0)),
    "through a shape": ([("Reshape", [1, 2, 4, 20]), ("Transpose", [0, 2, 1, 3])], (2, 4, 20), (1, 0, 2)),
    "heads": ([("Reshape", [1, 2, 4, 4, 5]), ("Transpose", [0, 3, 1, 2, 4]), ("Reshape", [4, 2, 4, 5])],
              (8, 4, 5), (1, 0, 2)),
    "only a shape": ([("Reshape", [2, 4, 4, 5])], (160,), (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIDDLE)
def test_a_chain_in_the_middle_is_one_permute(name: str) -> None:
    moves, shape, axes = MIDDLE[name]
    (found,) = permutes(model_of(moves))
    assert (found.attributes["shape"], found.attributes["axes"]) == (shape, axes)
    assert found.nodes == tuple(f"move{position}" for position in range(len(moves)))


NOTHING_MOVES: dict[str, Callable[[], onnx.ModelProto]] = {
    "there and back": lambda: model_of(
        [("Transpose", [0, 2, 3, 1]), ("Reshape", [1, 20, 8]), ("Transpose", [0, 2, 1]), ("Reshape", [1, 8, 4, 5])]
    ),
    "there and back by way of five": lambda: model_of(
        [("Reshape", [1, 2, 4, 4, 5]), ("Transpose", [0, 2, 1, 3, 4]), ("Reshape", [1, 4, 2, 4, 5]),
         ("Transpose", [0, 2, 1, 3, 4]), ("Reshape", [1, 8, 4, 5])]
    ),
    "a transpose before all": lambda: model_of([("Transpose", [0, 3, 1, 2])], (1, 4, 6, 8), first=False),
    "a shape before all": lambda: model_of([("Reshape", [1, 8, 4, 6])], (1, 192), first=False),
    "a transpose after all": lambda: model_of([("Transpose", [0, 2, 3, 1])], last=False),
    "shapes after all": lambda: model_of([("Reshape", [2, 4, 20]), ("Reshape", [5, 32])], last=False),
    "five dimensions after all": lambda: model_of(
        [("Reshape", [1, 2, 4, 4, 5]), ("Transpose", [0, 1, 3, 4, 2])], last=False
    ),
    "five dimensions, and nothing else": lambda: model_of(
        [("Transpose", [0, 1, 3, 4, 2])], (1, 2, 4, 6, 6), first=False, last=False
    ),
    "a shape, then a transpose, before all": lambda: model_of(
        [("Reshape", [1, 4, 6, 8]), ("Transpose", [0, 3, 1, 2])], (1, 192), first=False
    ),
    "a transpose, then a shape, after all": lambda: model_of(
        [("Transpose", [0, 2, 3, 1]), ("Reshape", [1, 160])], last=False
    ),
    "five dimensions, then another five, after all": lambda: model_of(
        [("Reshape", [1, 2, 4, 4, 5]), ("Transpose", [0, 1, 3, 4, 2]), ("Reshape", [1, 2, 2, 2, 5, 4])], last=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING_MOVES)
def test_what_moves_nothing_stays_a_name(name: str) -> None:
    assert not permutes(NOTHING_MOVES[name]())


CUT_BY_A_SHAPE: Moves = [("Transpose", [0, 2, 1, 3]), ("Reshape", [1, 4, 6, 5]), ("Transpose", [0, 2, 1, 3])]


def test_what_the_host_cannot_order_moves() -> None:
    model = model_of(CUT_BY_A_SHAPE, (1, 8, 3, 5), first=False)
    assert len(permutes(model)) == 1  # the host's array is transposed once only


def test_a_cut_through_a_factor_takes_two() -> None:
    model = model_of(CUT_BY_A_SHAPE, (1, 8, 3, 6))
    assert len(permutes(model)) == 2


def test_one_moved_tensor_serves_all_who_read_it() -> None:
    builder = GraphBuilder((1, 8, 4, 6))
    x = builder.quantize("q", "x")
    pooled = builder.pool("pooled", "max_pool", x)
    turned_type = replace(builder.tensors[pooled], shape=(1, 2, 8, 3))
    turned = builder.add("turned", "transpose", pooled, tensor_type=turned_type, axes=(0, 2, 1, 3))
    ends = [builder.dequantize(f"y{n}", builder.add(f"r{n}", "clamp", turned, low=-n, high=n + 5)) for n in range(2)]
    graph = builder.graph(*ends)
    after = permute_moves(refold(graph))
    assert kinds(after).count("permute") == 1
    assert_same(graph, after)


def test_a_tensor_that_two_read_in_shapes_without_common_parts_is_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (10, 24)), 0.1)
    shaped = builder.node("Reshape", [x, builder.constant("shape", np.array([4, 60], np.int64))], name="reshape")
    for name, operand, inputs in (("first", shaped, 60), ("second", x, 24)):
        weight, _ = builder.weights(name, [inputs, 8], axis=1)
        builder.output(builder.quantize(builder.node("MatMul", [operand, weight], name=name), 1.0), f"{name}.result")
    with pytest.raises(CompileError) as refused:
        lowered(rescaled(builder.build()))
    assert refused.value.nodes == ("second",)
    assert str(refused.value) == (
        "node 'second' (permute): moves the elements of [4, 60, 1, 1] to [10, 24, 1, 1] in a way that the machine has "
        "no steps for; expected int8, uint8, int16 or uint16, and dimensions whose parts move as wholes"
    )


def test_a_move_is_of_the_nodes_that_only_move() -> None:
    """A product's own transposition joins the model's: the host may do these, and the product stays."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.node("Relu", [builder.quantize(builder.input("x", (1, 6, 8)), 0.1)]), 0.1)
    turned = builder.node("Transpose", [x], name="turn", perm=[0, 2, 1])
    weight, _ = builder.weights("product", [6, 5], axis=1)
    product = builder.quantize(builder.node("MatMul", [turned, weight], name="product"), 1.0)
    own = builder.quantize(builder.node("MaxPool", [x], kernel_shape=[2], strides=[1]), 1.0)
    last, _ = builder.weights("last", [7, 5], axis=1)
    builder.output(product)
    builder.output(builder.quantize(builder.node("MatMul", [own, last], name="last"), 1.0), "second")
    found = {
        operator.nodes for operator in simplified(rescaled(builder.build())).operators if operator.kind == "permute"
    }
    assert found == {("last",)}
