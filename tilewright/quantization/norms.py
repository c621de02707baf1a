"""InstanceNormalization and GroupNormalization as a normalisation of rows, which the machine has instructions for.

    rows    = Reshape(x)                                [N, groups, values of a group]
    even    = LayerNormalization(rows, 1, axis=-1)
    shaped  = Reshape(even)                             as x
    y       = BatchNormalization(shaped, scale, bias)   of each channel; its mean is 0, its variance 1

Sources: ONNX's operators of these names, in opsets 6 and 21.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

INSTANCE, GROUP = "InstanceNormalization", "GroupNormalization"
EPSILON = 1e-5
"""Of both operators, where they state none."""

LONGEST = 1 << 14
"""Values in a row that is written out. A machine holds the sums of a whole row at once; the host takes longer ones."""


def has_norms(model: onnx.ModelProto) -> bool:
    """Whether there is anything to write out."""
    return any(node.op_type in (INSTANCE, GROUP) and not node.domain for node in model.graph.node)


def write_norms(model: onnx.ModelProto, kept: Set[str] = frozenset()) -> onnx.ModelProto:
    """The same function without these operators, but for `kept` nodes or operators; shapes are inferred.

    Nodes whose scales or biases are computed stay as they are, and so do those of very long rows.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in values}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        is_norm = node.op_type in (INSTANCE, GROUP) and not node.domain and not {node.name, node.op_type} & kept
        if is_norm and all(name in constants for name in node.input[1:]):
            nodes += _written(node, shapes[node.input[0]], graph)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _written(node: onnx.NodeProto, shape: tuple[int, ...], graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that take this one's place; their constants become the graph's."""
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    batch, channels = shape[:2]
    groups = channels if node.op_type == INSTANCE else attributes["num_groups"]
    length = prod(shape[1:]) // groups
    if length > LONGEST:
        return [node]
    name, (source, scale, bias) = node.name or node.output[0], node.input
    constants: dict[str, NDArray[Any]] = {
        "rows.shape": np.array((batch, groups, length), np.int64),
        "shaped.shape": np.array(shape, np.int64),
        "ones": np.ones(length, np.float32),
        "mean": np.zeros(channels, np.float32),
        "variance": np.ones(channels, np.float32),
    }
    stored = {part: f"{name}.{part}" for part in constants}
    graph.initializer.extend(numpy_helper.from_array(each, stored[part]) for part, each in constants.items())
    rows, even, shaped = (f"{name}.{part}" for part in ("rows", "even", "shaped"))
    epsilon, of_channel = attributes.get("epsilon", EPSILON), [scale, bias, stored["mean"], stored["variance"]]
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Reshape", [source, stored["rows.shape"]], rows, {}),
        ("LayerNormalization", [rows, stored["ones"]], even, {"axis": -1, "epsilon": epsilon}),
        ("Reshape", [even, stored["shaped.shape"]], shaped, {}),
        ("BatchNormalization", [shaped, *of_channel], node.output[0], {"epsilon": 0.0}),
    ]
    return [
        helper.make_node(op_type, inputs, [made], made if made != node.output[0] else f"{name}.scaled", **given)
        for op_type, inputs, made, given in steps
    ]
