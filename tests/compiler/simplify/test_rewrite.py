"""The rewriting engine: dead code, equal operators, aliases, and an end."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.simplify.graphs import GraphBuilder, assert_same, kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, drop_dead_code, merge_equal_operators, rewrite


def test_drops_what_no_output_needs() -> None:
    builder = GraphBuilder()
    used = builder.pair("used", "x")
    builder.conv("dead", used)
    builder.constant("forgotten", np.zeros(3))
    graph = drop_dead_code(builder.graph(used))
    assert kinds(graph) == ["quantize", "dequantize"]
    assert not graph.constants
    assert set(graph.tensors) == {"x", "used.q", "used"}


def test_merges_equal_operators() -> None:
    builder = GraphBuilder()
    q = builder.quantize("q", "x")
    first, second = builder.dequantize("first", q), builder.dequantize("second", q)
    total = builder.add("total", "add", first, second)
    graph = builder.graph(total, "second")
    merged = merge_equal_operators(graph)
    assert kinds(merged) == ["quantize", "dequantize", "add"]
    assert merged.outputs == {"total": "total", "second": "first"}
    assert_same(graph, merged)


def test_merges_operators_of_equal_constants_only() -> None:
    builder = GraphBuilder()
    values = [np.arange(100, dtype=np.int8), np.arange(100, dtype=np.int8), np.arange(100, dtype=np.int8)]
    values[2][-1] = 0
    names = [builder.constant(f"c{number}", value) for number, value in enumerate(values)]
    a, b, c = (builder.dequantize(f"d{number}", name) for number, name in enumerate(names))
    merged = merge_equal_operators(builder.graph(a, b, c))
    assert merged.outputs == {"d0": "d0", "d1": "d0", "d2": "d2"}
    assert set(merged.constants) == {"c0", "c2"}


def test_operands_of_a_sum_may_stand_in_any_order() -> None:
    builder = GraphBuilder()
    q = builder.quantize("q", "x")
    first, second = builder.dequantize("first", q), builder.add("second", "clamp", "x", low=0.0, high=1.0)
    sums = [builder.add(f"{kind}{number}", kind, *operands) for kind in ("add", "sub")
            for number, operands in enumerate([(first, second), (second, first)])]  # fmt: skip
    merged = merge_equal_operators(builder.graph(*sums))
    assert merged.outputs == {"add0": "add0", "add1": "add0", "sub0": "sub0", "sub1": "sub1"}


def test_merges_operators_with_equal_tables_only() -> None:
    builder = GraphBuilder()
    q = builder.quantize("q", "x")
    tables = [np.full(256, value, np.int8) for value in (1, 1, 2)]
    looked = [builder.add(f"t{number}", "lookup", q, table=table) for number, table in enumerate(tables)]
    merged = merge_equal_operators(builder.graph(*looked))
    assert merged.outputs == {"t0": "t0", "t1": "t0", "t2": "t2"}


def test_keeps_operators_with_other_attributes_or_types() -> None:
    builder = GraphBuilder()
    low, high = (
        builder.add("low", "clamp", "x", low=0.0, high=1.0),
        builder.add("high", "clamp", "x", low=0.0, high=2.0),
    )
    a, b = builder.quantize("a", "x"), builder.quantize("b", "x", dtype="uint8")
    graph = builder.graph(low, high, a, b)
    assert kinds(merge_equal_operators(graph)) == kinds(graph)


def test_an_alias_reaches_later_operators_and_outputs() -> None:
    def drop_clamp(operator: Operator, view: GraphView) -> Replacement:
        return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})

    builder = GraphBuilder()
    clamped = builder.add("clamped", "clamp", "x", low=-9.0, high=9.0)
    again = builder.add("again", "clamp", clamped, low=-9.0, high=9.0)
    graph = rewrite(builder.graph(builder.quantize("q", again), "again"), {"clamp": (drop_clamp,)})
    assert [operator.inputs for operator in graph.operators] == [("x",)]
    assert graph.outputs == {"q": "q", "again": "x"}


def test_changes_nothing_in_place() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.pair("y", "x"))
    copy = replace(graph, tensors=dict(graph.tensors), constants=dict(graph.constants))

    def rename(operator: Operator, view: GraphView) -> Replacement | None:
        return (
            None if operator.name == "new" else Replacement((replace(operator, name="new"),), {"t": graph.tensors["x"]})
        )

    assert rewrite(graph, {"quantize": (rename,)}).operators[0].name == "new"
    assert graph == copy


def test_rules_that_never_end_are_told() -> None:
    def forever(operator: Operator, view: GraphView) -> Replacement:
        return Replacement((operator,))

    builder = GraphBuilder()
    with pytest.raises(CompileError) as caught:
        rewrite(builder.graph(builder.quantize("q", "x")), {"quantize": (forever,)})
    assert str(caught.value) == "test: simplification does not come to an end"
