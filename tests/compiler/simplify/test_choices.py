"""Where with a condition that a quantised network computes: on the machine, with ONNX Runtime's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tilewright
from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.graph.interpreter import run_graph

SHAPE = (1, 20, 5, 6)

Condition = Callable[[ModelBuilder, str, str], str]
"""Adds the nodes that compute a condition of two dequantised tensors, which are quantised alike."""


def compared(operator: str, number: float | None = None) -> Condition:
    def condition(builder: ModelBuilder, x: str, y: str) -> str:
        other = y if number is None else builder.constant(f"{operator}.number", np.float32(number))
        return builder.node(operator, [x, other], name=operator)

    return condition


def joined(operator: str) -> Condition:
    def condition(builder: ModelBuilder, x: str, y: str) -> str:
        one = builder.node("Greater", [x, builder.constant("low", np.float32(-0.5))], name="one")
        return builder.node(operator, [one, builder.node("Less", [y, x], name="other")], name="both")

    return condition


def opposite(builder: ModelBuilder, x: str, y: str) -> str:
    return builder.node("Not", [builder.node("Equal", [x, y], name="equal")], name="not")


def of_a_row(builder: ModelBuilder, x: str, y: str) -> str:
    """Of the largest pixel of each channel, for all its pixels."""
    row = builder.node("ReduceMax", [x], name="row", axes=[2, 3], keepdims=0)
    row = builder.quantize(row, 0.1, 3, name="row.q")
    made = builder.node("Greater", [row, builder.constant("number", np.float32(1.5))], name="greater")
    return builder.node("Unsqueeze", [made, builder.constant("back", np.array([2, 3]))], name="back")


CONDITIONS: dict[str, Condition] = {
    **{f"{name}, of two": compared(name) for name in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")},
    **{f"{name}, of a number": compared(name, 0.4) for name in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "Equal, of a number": compared("Equal", 0.7),
    **{name: joined(name) for name in ("And", "Or", "Xor")},
    "Not": opposite,
    "broadcast": of_a_row,
}


def choosing(condition: Condition, first: Any = None, second: Any = None, alike: bool = True) -> onnx.ModelProto:
    """A Where between two tensors, or constants in their place, by a condition of two others."""
    builder = ModelBuilder(np.random.default_rng(4))
    steps = [(0.1, 3), (0.1, 3) if alike else (0.07, 3), (0.05, -10), (0.08, 20)]
    x, y, a, b = (
        builder.quantize(builder.input(name, SHAPE), *each, name=f"{name}.q")
        for name, each in zip("xyab", steps, strict=True)
    )
    builder.output(builder.quantize(builder.node("Add", [x, y], name="add"), 0.2, 0, name="sum.q"), "sum")
    builder.output(builder.quantize(builder.node("Add", [a, b], name="more"), 0.2, 0, name="more.q"), "more")
    chosen = [
        name if value is None else builder.constant(f"{name}.value", np.asarray(value, np.float32))
        for name, value in ((a, first), (b, second))
    ]
    made = builder.node("Where", [condition(builder, x, y), *chosen], name="where")
    builder.output(builder.quantize(made, 0.06, 7, name="result.q"))
    return builder.build("choosing")


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_choice_runs_on_the_machine(name: str) -> None:
    model = choosing(CONDITIONS[name])
    graph = simplified(model)
    for seed in range(3):
        inputs = random_inputs(model, np.random.default_rng(seed))
        np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    assert compiled_distances(model, "base16").max() <= 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.0, None), (None, 1.7), (-np.inf, None), (2.0, -1.0), (None, np.linspace(-3, 3, 6)[None])],
    ids=["zero", "a number", "the least", "two numbers", "a row"],
)
def test_what_is_chosen_may_be_constant(first: Any, second: Any) -> None:
    model = choosing(compared("Greater"), first, second)
    graph = simplified(model)
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    assert compiled_distances(model, "base16").max() <= 1


def test_differences_beyond_int8_have_their_sign() -> None:
    """The ends of int8 are 255 steps apart."""
    model = choosing(compared("Greater"))
    rng = np.random.default_rng(2)
    inputs = {name: np.where(rng.random(SHAPE) < 0.5, -99, 99).astype(np.float32) for name in "xyab"}
    np.testing.assert_array_equal(run_graph(simplified(model), inputs)["result"], run_onnx(model, inputs)["result"])


def hosts(model: onnx.ModelProto, machine: str = "base16") -> dict[str, str]:
    """The nodes that the host runs, and why."""
    program = tilewright.compile(model.SerializeToString(), machine, effort=0)
    inputs = random_inputs(model, np.random.default_rng(0))
    if "there" in inputs:
        inputs["there"] = inputs["there"] > 0
    np.testing.assert_allclose(program.run(inputs).outputs["result"], run_onnx(model, inputs)["result"], atol=0.0601)
    return {node.name: node.reason for node in program.host_nodes}


def test_tensors_with_steps_of_their_own_are_compared_by_the_host() -> None:
    reasons = hosts(choosing(compared("Greater"), alike=False))
    assert {"Greater", "where"} <= set(reasons)
    assert reasons["where"] == (
        "its condition 'Greater.out' is not computed in a way that the machine has instructions for; expected "
        "comparisons of tensors that are quantised alike, or with one number, and And, Or, Xor and Not of them"
    )
    assert not hosts(choosing(compared("Greater")))


def test_a_condition_that_the_host_gives_is_the_hosts() -> None:
    builder = ModelBuilder(np.random.default_rng(4))
    a, b = (builder.quantize(builder.input(name, SHAPE), 0.1, 3, name=f"{name}.q") for name in "ab")
    builder.output(builder.quantize(builder.node("Add", [a, b], name="add"), 0.2, 0, name="sum.q"), "sum")
    made = builder.node("Where", [builder.input("there", SHAPE, TensorProto.BOOL), a, b], name="where")
    builder.output(builder.quantize(made, 0.1, 3, name="result.q"))
    assert "where" in hosts(builder.build("given"))


def masked(is_kept: bool, extra: bool = False) -> onnx.ModelProto:
    """A softmax of scores in float32 of which a comparison leaves some out; beside an added mask, if `extra`."""
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", (1, 2, 8, 32)), 0.05, 3, name="x.q")
    places = builder.quantize(builder.input("places", (1, 1, 1, 32)), 0.1, 3, name="places.q")
    operator = "Greater" if is_kept else "LessOrEqual"
    condition = builder.node(operator, [places, builder.constant("number", np.float32(-8.0))], name="there")
    least = builder.constant("least", np.float32(np.finfo(np.float32).min))
    scores = builder.node("Where", [condition, *((x, least) if is_kept else (least, x))], name="where")
    if extra:
        later = np.where(np.triu(np.ones((8, 32)), 20) > 0, -10000.0, 0.0).astype(np.float32)
        scores = builder.node("Add", [scores, builder.constant("later", later)], name="add")
    y = builder.node("Softmax", [scores], name="softmax", axis=-1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="result.q"))
    return builder.build("masked")


@pytest.mark.parametrize("extra", [False, True], ids=["", "beside another"])
@pytest.mark.parametrize("is_kept", [True, False], ids=["scores first", "scores second"])
def test_a_mask_by_a_comparison_is_read_beside_the_scores(is_kept: bool, extra: bool) -> None:
    model = masked(is_kept, extra)
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    assert len(softmax.inputs) == 2
    inputs = random_inputs(model, np.random.default_rng(1))
    inputs["places"] = np.where(np.arange(32) % 3 < 2, 5.0, -9.0).astype(np.float32).reshape(1, 1, 1, 32)
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
    program = tilewright.compile(model.SerializeToString(), "sequence16", effort=0)
    assert program.host_nodes == ()
    found = program.run(inputs).outputs["result"]
    assert np.abs(found - run_onnx(model, inputs)["result"]).max() <= 2 / 256
