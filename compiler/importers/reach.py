"""What a model's nodes read, graphs inside them included, and what its outputs depend on."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, including what its subgraphs read from outside."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type not in GRAPHS:
            continue
        for graph in (attribute.g, *attribute.graphs):
            made = {value.name for value in (*graph.input, *graph.initializer)}
            made |= {output for inner in graph.node for output in inner.output}
            for inner in graph.node:
                yield from (name for name in reads(inner) if name not in made)
            yield from (value.name for value in graph.output if value.name not in made)


def reached(graph: onnx.GraphProto) -> set[str]:
    """The tensors that the outputs depend on, these included. Nodes come after those that make what they read."""
    found = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if not found.isdisjoint(node.output):
            found.update(reads(node))
    return found


def drop_unreached_nodes(graph: onnx.GraphProto) -> None:
    """Take out the nodes that no output depends on."""
    found = reached(graph)
    kept = [node for node in graph.node if not found.isdisjoint(node.output)]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)
