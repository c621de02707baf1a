"""QDQ to integer operators: each rule alone, checked to compute the same."""

import math

import pytest

from tests.compiler.simplify.graphs import OTHER, QUANTIZED, GraphBuilder, kinds, only, rewritten
from tilewright.compiler.graph.graph import Quantization
from tilewright.compiler.simplify.integer import (
    before_dequantize,
    clamp_before_dequantize,
    clamp_into_quantize,
    drop_rescale_to_same,
    integer_operator,
    limits_into_producer,
    quantize_before,
    requantize,
)


@pytest.mark.parametrize("kind", ["max_pool", "reshape"])
def test_dequantize_moves_below(kind: str) -> None:
    builder = GraphBuilder()
    x = builder.pair("p", "x")
    y = builder.pool("y", kind, x) if kind == "max_pool" else builder.reshape("y", x, 1, 108)
    graph = rewritten(builder.graph(y), {kind: (before_dequantize,)})
    assert kinds(graph) == ["quantize", kind, "dequantize"]


def test_an_average_is_not_moved() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.pool("y", "average_pool", builder.pair("p", "x")))
    assert kinds(rewritten(graph, {"max_pool": (before_dequantize,)})) == ["quantize", "dequantize", "average_pool"]


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (-1.0, 3.5), (-math.inf, 0.75)])
def test_a_clamp_on_the_grid_limits_the_integers(low: float, high: float) -> None:
    builder = GraphBuilder()
    y = builder.add("y", "clamp", builder.pair("p", "x"), low=low, high=high)
    graph = rewritten(builder.graph(y), {"clamp": (clamp_before_dequantize,)})
    assert kinds(graph) == ["quantize", "rescale", "dequantize"]


def test_a_clamp_between_two_integers_stays() -> None:
    builder = GraphBuilder()
    y = builder.add("y", "clamp", builder.pair("p", "x"), low=0.1, high=6.0)
    graph = rewritten(builder.graph(y), {"clamp": (clamp_before_dequantize,)})
    assert kinds(graph) == ["quantize", "dequantize", "clamp"]


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, math.inf), (0.1, 6.0), (-math.inf, -3.3), (100.0, 200.0), (-900.0, -800.0)]
)
def test_a_clamp_becomes_limits_of_quantize(low: float, high: float) -> None:
    builder = GraphBuilder()
    y = builder.quantize("y", builder.add("c", "clamp", "x", low=low, high=high), OTHER)
    graph = rewritten(builder.graph(y), {"quantize": (clamp_into_quantize,)})
    assert kinds(graph) == ["quantize"]


def test_two_clamps_become_the_limits_of_both() -> None:
    builder = GraphBuilder()
    c = builder.add("c", "clamp", builder.add("b", "clamp", "x", low=-3.0, high=8.0), low=0.0, high=20.0)
    graph = rewritten(builder.graph(builder.quantize("y", c)), {"quantize": (clamp_into_quantize,)})
    assert kinds(graph) == ["quantize"]
    assert only(graph, "quantize").attributes == {"low": -5, "high": 27}  # 0 / 0.25 - 5 and 8 / 0.25 - 5


@pytest.mark.parametrize("kind", ["max_pool", "reshape"])
def test_quantize_moves_above(kind: str) -> None:
    builder = GraphBuilder()
    y = builder.pool("p", kind, "x") if kind == "max_pool" else builder.reshape("p", "x", 3, 36)
    graph = rewritten(builder.graph(builder.quantize("y", y)), {"quantize": (quantize_before,)})
    assert kinds(graph) == ["quantize", kind]


def test_quantize_of_dequantize_is_a_rescale() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.quantize("y", builder.pair("p", "x"), OTHER))
    assert kinds(rewritten(graph, {"quantize": (requantize,)})) == ["quantize", "rescale"]


def test_a_rescale_that_changes_nothing_goes() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.quantize("y", builder.pair("p", "x"), QUANTIZED))
    rules = {"quantize": (requantize,), "rescale": (drop_rescale_to_same,)}
    assert kinds(rewritten(graph, rules)) == ["quantize"]


@pytest.mark.parametrize("kind", ["conv", "add", "average_pool"])
def test_an_operator_between_becomes_an_integer_one(kind: str) -> None:
    builder = GraphBuilder()
    x = builder.pair("p", "x")
    match kind:
        case "conv":
            y = builder.conv("op", x)
        case "add":
            y = builder.add("op", "add", x, builder.pair("p2", "x", OTHER))
        case _:
            y = builder.pool("op", kind, x)
    graph = rewritten(
        builder.graph(builder.quantize("y", y, Quantization((0.5,), (3,)))), {"quantize": (integer_operator,)}
    )
    assert "dequantize" not in kinds(graph)
    made = only(graph, kind)
    assert (made.name, made.nodes, made.outputs) == ("op", ("op",), ("y",))
    assert (made.attributes["low"], made.attributes["high"]) == (-128, 127)


def test_a_float_operand_keeps_the_operator_float() -> None:
    builder = GraphBuilder()
    y = builder.quantize("y", builder.add("op", "add", builder.pair("p", "x"), "x"))
    graph = rewritten(builder.graph(y), {"quantize": (integer_operator,)})
    assert kinds(graph) == ["quantize", "dequantize", "add", "quantize"]


def limited(builder: GraphBuilder, q: str, low: int, high: int) -> str:
    return builder.add("limited", "rescale", q, tensor_type=builder.tensors[q], low=low, high=high)


def test_limits_move_into_the_producer() -> None:
    builder = GraphBuilder()
    q = builder.add(
        "r", "rescale", builder.quantize("q", "x", OTHER), tensor_type=builder.tensors["q"], low=-100, high=90
    )
    graph = rewritten(builder.graph(limited(builder, q, -5, 100)), {"rescale": (limits_into_producer,)})
    assert kinds(graph) == ["quantize", "rescale"]
    assert only(graph, "rescale").attributes == {"low": -5, "high": 90}


def test_limits_stay_where_the_producer_has_another_reader() -> None:
    builder = GraphBuilder()
    q = builder.add(
        "r", "rescale", builder.quantize("q", "x", OTHER), tensor_type=builder.tensors["q"], low=-100, high=90
    )
    graph = rewritten(builder.graph(limited(builder, q, -5, 100), q), {"rescale": (limits_into_producer,)})
    assert kinds(graph) == ["quantize", "rescale", "rescale"]
    assert graph.operators[-1].inputs == ("r",)
