"""Reshapes between height and width, [N, C, H, W] to [N, C, H·W] and back, where operators compute with both shapes.

Elsewhere a reshape costs nothing: host and machine have the elements in the same order. Between two operators the rows
change their length, and the elements must be moved. Example: the maps of a detector's scales, each flattened and then
concatenated.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import COLUMN, ROW, Graph, Operator, stored_shape
from tilewright.compiler.simplify.kinds import QUANTIZING

FREE = (*QUANTIZING, "reshape")
"""Operators that keep the elements in order, or that the host does."""


def refold(graph: Graph) -> Graph:
    """The graph with `refold` in place of the reshapes that move rows; other reshapes stay."""
    operators = tuple(
        replace(operator, kind="refold") if _moves_rows(operator, graph) else operator for operator in graph.operators
    )
    return replace(graph, operators=operators)


def _moves_rows(operator: Operator, graph: Graph) -> bool:
    if operator.kind != "reshape":
        return False
    shapes = [graph.tensors[name].shape for name in (*operator.inputs[:1], *operator.outputs)]
    if max(map(len, shapes)) > 4:
        return False
    before, after = map(stored_shape, shapes)
    keeps_pixels = before[:ROW] == after[:ROW] and before[ROW] * before[COLUMN] == after[ROW] * after[COLUMN]
    is_refold = keeps_pixels and 1 in (before[ROW], after[ROW])
    if before == after or not is_refold or graph.tensors[operator.outputs[0]].quantization is None:
        return False
    return _is_computed(operator.inputs[0], operator, graph) and _is_read(operator.outputs[0], graph)


def _is_computed(name: str, but: Operator, graph: Graph) -> bool:
    """Whether an operator computes with a tensor in this shape: makes it, or reads it, other than `but`."""
    if any(reader is not but and reader.kind not in FREE for reader in graph.readers.get(name, ())):
        return True
    producer = graph.producers.get(name)
    if producer is None or producer.kind == "transpose":
        return False
    return producer.kind not in FREE or _is_computed(producer.inputs[0], producer, graph)


def _is_read(name: str, graph: Graph) -> bool:
    """Whether an operator reads a tensor, or a reshape of it."""
    for reader in graph.readers.get(name, ()):
        if reader.kind == "reshape" and _is_read(reader.outputs[0], graph):
            return True
        if reader.kind not in (*FREE, "transpose"):
            return True
    return False
