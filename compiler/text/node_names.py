"""The ONNX nodes that operators and nests stand for: names that remember their operator type."""

from __future__ import annotations

from collections.abc import Iterable


class OnnxNode(str):
    """A node's name; `op_type` is its ONNX operator, such as `Conv`. Equal to the plain name."""

    op_type: str

    def __new__(cls, name: str, op_type: str) -> OnnxNode:
        made = super().__new__(cls, name)
        made.op_type = op_type
        return made

    def __reduce__(self) -> tuple[type[OnnxNode], tuple[str, str]]:
        """What copies are made from."""
        return OnnxNode, (str(self), self.op_type)


def describe_nodes(nodes: Iterable[str]) -> str:
    """How messages name nodes: `conv1 (Conv) + relu1 (Relu)`; a plain name stands alone."""
    return " + ".join(f"{node} ({node.op_type})" if isinstance(node, OnnxNode) else node for node in nodes)


def print_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Operator type and name in one text each; an operator type holds no space."""
    return tuple(f"{node.op_type if isinstance(node, OnnxNode) else ''} {node}" for node in nodes)


def parse_nodes(texts: Iterable[str]) -> tuple[str, ...]:
    """What `print_nodes` printed."""
    words = (text.partition(" ") for text in texts)
    return tuple(OnnxNode(name, op_type) if op_type else name for op_type, _, name in words)
