"""Outputs that others read as well get a transpose of their own: the host then orders their elements."""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import Graph, Operator, fresh_name


def separate_ends(graph: Graph) -> Graph:
    """The graph with a transpose for each output of one that others read as well: the host then orders that output."""
    operators: list[Operator] = []
    tensors = dict(graph.tensors)
    for operator in graph.operators:
        before = graph.producers.get(operator.inputs[0]) if operator.kind == "dequantize" else None
        if before is not None and before.kind == "transpose" and graph.uses[operator.inputs[0]] > 1:
            own = fresh_name(f"{operator.outputs[0]}.turned", tensors)
            tensors[own] = tensors[operator.inputs[0]]
            operators.append(replace(before, outputs=(own,)))
            operator = replace(operator, inputs=(own,))
        operators.append(operator)
    return replace(graph, operators=tuple(operators), tensors=tensors)
