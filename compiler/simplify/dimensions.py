"""Elementwise operators on tensors of more than four dimensions: the first ones are joined, so that four are left.

The machine's tensors are [N, C, H, W], and what is computed element by element is the same in any shape.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Graph, Operator, TensorType
from tilewright.compiler.simplify.binary import BINARY, MOST_DIMENSIONS
from tilewright.compiler.simplify.rewrite import fresh_name

ELEMENTWISE = ("rescale", "lookup", *BINARY)


def join_dimensions(graph: Graph) -> Graph:
    """The graph with reshapes around such operators; those whose operands are broadcast stay as they are."""
    operators: list[Operator] = []
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    for operator in graph.operators:
        operators += _on_four(operator, tensors, constants) or [operator]
    return replace(graph, operators=tuple(operators), tensors=tensors, constants=constants)


def _on_four(
    operator: Operator, tensors: dict[str, TensorType], constants: dict[str, NDArray[Any]]
) -> list[Operator] | None:
    """The operator between reshapes; None if it needs none, or if they would not help."""
    result = operator.outputs[0]
    shape = tensors[result].shape
    is_of_channels = operator.kind == "lookup" and operator.attributes["table"].ndim > 1
    if operator.kind not in ELEMENTWISE or len(shape) <= MOST_DIMENSIONS or is_of_channels:
        return None
    if any(tensors[name].shape != shape for name in operator.inputs):
        return None
    joined = (prod(shape[: 1 - MOST_DIMENSIONS]), *shape[1 - MOST_DIMENSIONS :])
    before, inputs = [], []
    for name in operator.inputs:
        inputs.append(fresh_name(f"{name}.joined", tensors))
        tensors[inputs[-1]] = replace(tensors[name], shape=joined)
        if name in constants:
            constants[inputs[-1]] = constants[name].reshape(joined)
        else:
            before.append(Operator(f"{operator.name}.join", "reshape", (name,), (inputs[-1],), {}, operator.nodes))
    middle = fresh_name(f"{result}.joined", tensors)
    tensors[middle] = replace(tensors[result], shape=joined)
    made = replace(operator, inputs=tuple(inputs), outputs=(middle,))
    return [*before, made, Operator(f"{operator.name}.part", "reshape", (middle,), (result,), {}, operator.nodes)]
