"""Which nodes ONNX knows, and which of them the compiler reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.importers.onnx_microsoft import DOMAIN, require_form
from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN


def check_node(name: str, node: onnx.NodeProto, opset: int) -> None:
    """Raise CompileError for a node that is none of ONNX's, or that the compiler does not read."""
    check_schema(name, node, opset)
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise CompileError(
                NodeName(name, node.op_type), "control flow has no lowering", remedy="unroll or remove it"
            )


def check_schema(name: str, node: onnx.NodeProto, opset: int) -> None:
    """Raise CompileError for an operator that does not exist, and for attributes that it has not, or has to have."""
    if node.domain == DOMAIN:
        require_form(node)  # no schema; simplify refuses what it does not read
        return
    if node.domain not in NAMES_OF_DEFAULT_DOMAIN:
        fact = f"unknown operator {node.op_type} of the domain {node.domain!r}"
        raise CompileError(NodeName(name), fact, expected="operators of ONNX")
    try:
        attributes = _attributes(node.op_type, opset)
    except onnx.defs.SchemaError:
        raise CompileError(
            NodeName(name), f"unknown operator {node.op_type}; opset {opset} has none of that name"
        ) from None
    given = [attribute.name for attribute in node.attribute]
    for attribute in given:
        if attribute not in attributes:
            known = ", ".join(sorted(attributes)) or "none"
            raise CompileError(
                NodeName(name, node.op_type), f"unknown attribute {attribute!r}", remedy=f"it has: {known}"
            )
    required = [attribute for attribute, is_required in attributes.items() if is_required]
    missing = set(required).difference(given)
    if missing:
        expected = " and ".join(sorted(required))
        raise CompileError(NodeName(name, node.op_type), f"has no attribute {min(missing)!r}", expected=expected)


@cache
def _attributes(operator: str, opset: int) -> Mapping[str, bool]:
    """The attributes of an operator's schema, and whether each must be there; raises SchemaError if there is none."""
    return {name: each.required for name, each in onnx.defs.get_schema(operator, opset).attributes.items()}
