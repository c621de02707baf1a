"""Elementwise operators on tensors of more than four dimensions: neighbours are joined, so that four are left.

The machine's tensors are [N, C, H, W], and what is computed element by element is the same in any shape. Dimensions of
which an operand has only one element, repeated, are joined with each other and not with those that it has whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, TensorType, fresh_name
from tilewright.compiler.simplify.binary import BINARY, MOST_DIMENSIONS

Shape = tuple[int, ...]

ELEMENTWISE = ("rescale", "lookup", *BINARY)


def join_dimensions(graph: Graph) -> Graph:
    """The graph with reshapes around such operators, where its operands can be joined in the same way."""
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
    if any(len(tensors[name].shape) != len(shape) for name in operator.inputs):
        return None
    computed = [tensors[name].shape for name in operator.inputs if name not in constants]
    fixed = [tensors[name].shape for name in operator.inputs if name in constants]
    cuts = _cuts(shape, computed, fixed)
    if cuts is None:
        return None
    joined = _joined(shape, cuts)
    before, inputs = [], []
    for name in operator.inputs:
        own = _joined(tensors[name].shape, cuts)
        inputs.append(fresh_name(f"{name}.joined", tensors))
        if name in constants:
            values = constants[name].reshape(own)
            own = tuple(joined[d] if d == CHANNEL else size for d, size in enumerate(own))
            constants[inputs[-1]] = np.ascontiguousarray(np.broadcast_to(values, own))
        else:
            before.append(Operator(f"{operator.name}.join", "reshape", (name,), (inputs[-1],), {}, operator.nodes))
        tensors[inputs[-1]] = replace(tensors[name], shape=own)
    middle = fresh_name(f"{result}.joined", tensors)
    tensors[middle] = replace(tensors[result], shape=joined)
    made = replace(operator, inputs=tuple(inputs), outputs=(middle,))
    return [*before, made, Operator(f"{operator.name}.part", "reshape", (middle,), (result,), {}, operator.nodes)]


def _cuts(shape: Shape, computed: Sequence[Shape], fixed: Sequence[Shape]) -> tuple[int, ...] | None:
    """Where to divide a shape so that four groups are left, the first as large as it may be; None if there is no way.

    In a group, an operand has all or one of each dimension. What is computed has all channels: a word holds those of
    one pixel.
    """
    rank = len(shape)
    for inner in reversed(list(combinations(range(1, rank), MOST_DIMENSIONS - 1))):
        cuts = (0, *inner, rank)
        if all(_is_even(shape, own, cuts) for own in (*computed, *fixed)):
            channels = _joined(shape, cuts)[CHANNEL]
            if all(_joined(own, cuts)[CHANNEL] == channels for own in computed):
                return cuts
    return None


def _is_even(shape: Shape, own: Shape, cuts: Sequence[int]) -> bool:
    """Whether an operand has all or one element of each group."""
    groups = zip(_joined(shape, cuts), _joined(own, cuts), strict=True)
    return all(count in (1, whole) for whole, count in groups)


def _joined(shape: Shape, cuts: Sequence[int]) -> Shape:
    return tuple(prod(shape[begin:end]) for begin, end in pairwise(cuts))
