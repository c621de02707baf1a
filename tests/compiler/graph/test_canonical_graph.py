"""Graphs that are equal but for names have one canonical form, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tilewright.compiler.graph.canonical_graph import canonical_graph
from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType


def network(x: str = "x", y: str = "y", limit: str = "limit", total: str = "sum") -> Graph:
    """`clamp(x - y) * limit`, whatever its tensors are called."""
    of = TensorType("int8", (1, 4, 2, 2), Quantization((0.5,), (3,)))
    between = f"{x} - {y}"
    return Graph(
        f"network of {x}",
        (
            Operator(f"sub {x}", "sub", (x, y), (between,), {"low": -5, "table": np.arange(3)}, (f"Sub {x}",)),
            Operator(f"mul {x}", "mul", (between, limit), (total,)),
        ),
        dict.fromkeys((x, y, between, total), of) | {limit: TensorType("int8", (4,))},
        {limit: np.array([1, 2, 3, 4], np.int8)},
        (x, y),
        {f"output of {x}": total},
        13,
    )


def in_operator(at: int, **changes: object) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        changed = replace(graph.operators[at], **changes)  # type: ignore[arg-type]
        return replace(graph, operators=(*graph.operators[:at], changed, *graph.operators[at + 1 :]))

    return change


def in_tensor(name: str, **changes: object) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        changed = replace(graph.tensors[name], **changes)  # type: ignore[arg-type]
        return replace(graph, tensors={**graph.tensors, name: changed})

    return change


OTHERS: dict[str, Callable[[Graph], Graph]] = {
    "another operator": in_operator(0, kind="add"),
    "operands in another order": in_operator(0, inputs=("y", "x")),
    "one operand twice": in_operator(0, inputs=("x", "x")),
    "an operand left out": in_operator(1, inputs=("x - y", "")),
    "another attribute": in_operator(0, attributes={"low": -4, "table": np.arange(3)}),
    "an attribute of another type": in_operator(0, attributes={"low": -5.0, "table": np.arange(3)}),
    "another table": in_operator(0, attributes={"low": -5, "table": np.arange(1, 4)}),
    "an attribute less": in_operator(0, attributes={"low": -5}),
    "another shape": in_tensor("x", shape=(1, 4, 4, 1)),
    "another element type": in_tensor("sum", dtype="uint8"),
    "another scale": in_tensor("x - y", quantization=Quantization((0.25,), (3,))),
    "another zero point": in_tensor("y", quantization=Quantization((0.5,), (2,))),
    "another constant": lambda graph: replace(graph, constants={"limit": np.array([1, 2, 3, 5], np.int8)}),
    "a constant of another shape": lambda graph: replace(graph, constants={"limit": np.array([[1, 2, 3, 4]], np.int8)}),
    "inputs in another order": lambda graph: replace(graph, inputs=("y", "x")),
    "another output": lambda graph: replace(graph, outputs={"output": "x - y"}),
    "another opset": lambda graph: replace(graph, opset=14),
}


def test_other_names_are_the_same_form() -> None:
    one, other = canonical_graph(network()), canonical_graph(network("b", "a", "c", "d"))
    assert one == other and hash(one) == hash(other)
    assert other.names_from(one) == {"x": "b", "y": "a", "x - y": "b - a", "limit": "c", "sum": "d"}


@pytest.mark.parametrize("case", OTHERS)
def test_another_graph_has_another_form(case: str) -> None:
    assert canonical_graph(OTHERS[case](network())) != canonical_graph(network())
