"""Divides a model of the host into pieces: nodes that ONNX Runtime computes as ONNX means them, and others.

A piece is a model of consecutive nodes. The others are those of OTHERWISE, which ONNX's reference evaluator runs: it
gets no more than these nodes, because it does not know every version of every operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.importers.shapes import known_shapes
from tilewright.compiler.partition.source import reads


@dataclass(frozen=True)
class NodeFacts:
    """What is known of a node: attributes, inputs, and values and shapes of tensors by name."""

    attributes: Mapping[str, Any]
    inputs: Sequence[str]
    values: Mapping[str, NDArray[Any]]
    shapes: Mapping[str, tuple[int, ...]]


def _ends_between_pixels(node: NodeFacts) -> bool:
    """Whether a Resize that aligns the corners makes a size that is not whole.

    ONNX takes the factor times the size for the distance between the corners, and ONNX Runtime the pixels there are.
    """
    if node.attributes.get("coordinate_transformation_mode") != b"align_corners":
        return False
    x, *_, scales = node.inputs[:3]
    if len(node.inputs) > 3 or scales not in node.values:
        return len(node.inputs) <= 3
    sizes = node.values[scales].astype(np.float64) * node.shapes.get(x, (1,) * node.values[scales].size)
    return not np.allclose(sizes, np.rint(sizes), rtol=0, atol=1e-3)


OTHERWISE: Mapping[str, Callable[[NodeFacts], bool]] = {
    "DFT": lambda node: True,  # less exact than single precision allows
    "STFT": lambda node: True,
    "MaxUnpool": lambda node: len(node.inputs) > 2,  # leaves its third input out
    "Resize": _ends_between_pixels,
    "Dropout": lambda node: "seed" in node.attributes,  # training, with other random numbers
    "Attention": lambda node: node.attributes.get("is_causal") == 1,  # masks with -inf otherwise
}
"""Operators that ONNX Runtime computes otherwise than ONNX's own tests expect, and of which nodes that is true."""


@dataclass(frozen=True)
class HostPiece:
    """Nodes as a model, with the names of its inputs and outputs."""

    model: onnx.ModelProto
    is_otherwise: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def pieces_of(model: onnx.ModelProto) -> tuple[HostPiece, ...]:
    """The model in pieces that run one after the other; itself where ONNX Runtime computes all as ONNX means it."""
    if not any(node.op_type in OTHERWISE for node in all_nodes(model.graph)):
        return (whole_piece(model),)
    inferred = onnx.shape_inference.infer_shapes(model)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    shapes = known_shapes(inferred)
    groups = groupby(model.graph.node, lambda node: _is_otherwise(node, values, shapes))
    grouped = [(is_otherwise, list(nodes)) for is_otherwise, nodes in groups]
    if len(grouped) == 1:
        return (whole_piece(model, grouped[0][0]),)
    return tuple(_cut(inferred, grouped))


def whole_piece(model: onnx.ModelProto, is_otherwise: bool = False) -> HostPiece:
    inputs, outputs = (tuple(value.name for value in ends) for ends in (model.graph.input, model.graph.output))
    return HostPiece(model, is_otherwise, inputs, outputs)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs in its nodes' attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from all_nodes(inner)


def _is_otherwise(
    node: onnx.NodeProto, values: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether a node, or one in its bodies, is computed otherwise."""
    nodes = [node, *(each for a in node.attribute for inner in (a.g, *a.graphs) for each in all_nodes(inner))]
    for each in nodes:
        if each.op_type in OTHERWISE:
            typed = [a for a in each.attribute if a.type != onnx.AttributeProto.UNDEFINED]
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in typed}
            if OTHERWISE[each.op_type](NodeFacts(attributes, each.input, values, shapes)):
                return True
    return False


def _cut(model: onnx.ModelProto, groups: Sequence[tuple[bool, Sequence[onnx.NodeProto]]]) -> Iterator[HostPiece]:
    """The pieces of these groups of nodes; each gives what later ones read, and what the model gives."""
    graph = model.graph
    types = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    needed = [{value.name for value in graph.output}]
    for _, nodes in reversed(groups):
        needed.append(needed[-1] | {name for node in nodes for name in reads(node)})
    for (is_otherwise, nodes), later in zip(groups, needed[-2::-1], strict=True):
        made = list(dict.fromkeys(name for node in nodes for name in node.output if name))
        read = dict.fromkeys(name for node in nodes for name in reads(node))
        inputs = tuple(name for name in read if name not in made and name not in constants)
        outputs = tuple(name for name in made if name in later)
        piece = onnx.helper.make_graph(
            nodes,
            graph.name,
            [types.get(name, onnx.ValueInfoProto(name=name)) for name in inputs],
            [types.get(name, onnx.ValueInfoProto(name=name)) for name in outputs],
            [constants[name] for name in read if name in constants],
        )
        made_model = onnx.helper.make_model(piece, opset_imports=model.opset_import, ir_version=model.ir_version)
        yield HostPiece(made_model, is_otherwise, inputs, outputs)
