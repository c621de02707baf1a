"""Masks that a Where chooses by a computed condition, such as the padding of a batch or the places of a cache in use.

    Softmax(Where(c, x, -∞))   →   Softmax(x + Where(c, 0, -10000))

So the scores stay on the machine, and only what the condition says comes from the host. Both are the same but for a
row of which nothing is left: then the softmax is that of its scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.simplify.full_rows import NEGLIGIBLE

CHOICE = "Where"
"""The operator that chooses."""

ADDED = np.float32(2 * NEGLIGIBLE)
"""What is added to a score that counts for nothing."""


def has_choices(model: onnx.ModelProto) -> bool:
    """Whether anything may be a mask that is chosen."""
    return any(node.op_type == CHOICE for node in model.graph.node)


def chosen_values(node: onnx.NodeProto, tensors: Mapping[str, onnx.TensorProto]) -> dict[str, NDArray[Any]]:
    """Those of the two operands between which a Where chooses that are constants."""
    return {name: numpy_helper.to_array(tensors[name]) for name in node.input[1:] if name in tensors}


def write_chosen_masks(model: onnx.ModelProto, kept: Set[str] = frozenset()) -> onnx.ModelProto:
    """The same function with masks added that were chosen, but for `kept` nodes or operators."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph, tensors = made.graph, {tensor.name: tensor for tensor in model.graph.initializer}
    readers = Counter(tensor for node in graph.node for tensor in node.input)
    readers.update(value.name for value in graph.output)
    masked = {node.input[0] for node in graph.node if node.op_type == "Softmax" and readers[node.input[0]] == 1}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        scores = _scores(node, tensors) if node.output[0] in masked and not {node.name, node.op_type} & kept else None
        nodes += [node] if scores is None else _added(node, scores, graph)
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _scores(node: onnx.NodeProto, tensors: Mapping[str, onnx.TensorProto]) -> str | None:
    """The scores of which a Where replaces some, if its condition is computed and it does nothing else."""
    if node.op_type != CHOICE or node.input[0] in tensors:
        return None
    constants, (_, first, second) = chosen_values(node, tensors), node.input
    for scores, other in ((first, second), (second, first)):
        value = constants.get(other)
        if value is not None and scores not in constants and value.size == 1 and (value <= NEGLIGIBLE).all():
            return scores
    return None


def _added(node: onnx.NodeProto, scores: str, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that take a Where's place; their constants become the graph's."""
    least, none, mask = (f"{node.name}.{part}" for part in ("least", "none", "mask"))
    for name, value in ((least, ADDED), (none, np.float32(0))):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    chosen = [none if tensor == scores else least for tensor in node.input[1:]]
    return [
        helper.make_node(CHOICE, [node.input[0], *chosen], [mask], mask),
        helper.make_node("Add", [scores, mask], [node.output[0]], node.name),
    ]
