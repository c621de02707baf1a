"""Nodes that end the process when the onnx package infers their shapes: they are refused before it sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from tilewright.compiler.errors import DamagedModel, NodeName, describe


def require_harmless(model: onnx.ModelProto, name: str) -> None:
    """Raises DamagedModel for a node, in a subgraph or a function too, that the onnx package does not survive.

    Split with another number of `num_outputs` than of results: its shape inference writes beyond a list, or fills the
    memory with sizes (seen in onnx 1.23).
    """
    for node in _nodes((*model.graph.node, *(node for function in model.functions for node in function.node))):
        wanted = [attribute.i for attribute in node.attribute if attribute.name == "num_outputs"]
        if node.op_type == "Split" and any(count != len(node.output) for count in wanted):
            fact = f"num_outputs = {wanted[0]} for {len(node.output)} results"
            place = describe(NodeName(node.name, node.op_type)) if node.name else f"{name}: a Split"
            error = DamagedModel(place, fact, expected="as many of both")
            error.nodes = (node.name,)
            raise error


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These nodes and those of their subgraphs, however deep."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                left.extend(graph.node)
