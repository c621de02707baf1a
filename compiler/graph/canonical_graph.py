"""The canonical form of a graph: tensors are numbers, in the order in which operators read and write them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from tilewright.compiler.canonical_form import CanonicalForm, NameNumbers
from tilewright.compiler.graph.graph import Attribute, Graph


def canonical_graph(graph: Graph) -> CanonicalForm:
    """All that a graph computes: its operators, the types of their tensors, and the values of constants."""

    def tell(numbers: NameNumbers) -> Hashable:
        operators = tuple(
            [
                (
                    operator.kind,
                    tuple([(name, _told(value)) for name, value in operator.attributes.items()]),
                    tuple([numbers[name] if name else -1 for name in operator.inputs]),
                    tuple([numbers[name] for name in operator.outputs]),
                )
                for operator in graph.operators
            ]
        )
        constants = tuple([(numbers[name], _told(value)) for name, value in graph.constants.items()])
        ends = tuple([numbers[name] for name in (*graph.inputs, *graph.outputs.values())])
        tensors = tuple([graph.tensors[name] for name in numbers])
        return operators, constants, ends, tensors, graph.opset

    return CanonicalForm.of(tell)


def _told(value: Attribute) -> Hashable:
    """An attribute or a constant."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value).__name__, repr(value)
