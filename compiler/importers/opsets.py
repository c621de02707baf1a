"""Versions of ONNX's operators: which are read, which nodes they know, how old ones become newer, which we write."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx

from tilewright.compiler.errors import CompileError, NodeName, first_line
from tilewright.compiler.importers.onnx_microsoft import DOMAIN, require_form

OLDEST_OPSET = 7
"""The oldest version that the onnx package's converter can convert."""

OLDEST_READ_OPSET = 11
"""The oldest version that is read without conversion; older models are converted."""

CONVERTED_OPSET = 15
"""The version that they are converted to. From it on, the evaluator's BatchNormalization is that of inference."""

LAYER_NORMALIZATION = 17
"""The version that brought LayerNormalization to ONNX."""

HIDDEN_DOMAIN = "tilewright.hidden"
"""Of nodes that the converter leaves alone."""

WRITTEN_OPSET = 21
"""The version of the operators in models that we make."""

WRITTEN_IR_VERSION = 10
"""The version of the file format that belongs to these operators."""

TWO_BITS_OPSET, TWO_BITS_IR_VERSION = 25, 13
"""The first of both with weights of two bits."""

NAMES_OF_DEFAULT_DOMAIN = ("", "ai.onnx")


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators that a model uses."""
    version: int = next(o.version for o in model.opset_import if o.domain in NAMES_OF_DEFAULT_DOMAIN)
    return version


def has_only_own_operators(model: onnx.ModelProto) -> bool:
    """Whether all nodes of a model's main graph are of ONNX's own operators."""
    return all(node.domain in NAMES_OF_DEFAULT_DOMAIN for node in model.graph.node)


def check_opset(model: onnx.ModelProto, name: str) -> None:
    """Raise CompileError for a model of several versions, or one that is too old or too new."""
    newest = onnx.defs.onnx_opset_version()
    versions = [o.version for o in model.opset_import if o.domain in NAMES_OF_DEFAULT_DOMAIN]
    if len(versions) != 1:
        raise CompileError(name, f"expected one version of the ONNX operator set, got {versions or 'none'}")
    if not OLDEST_OPSET <= versions[0] <= newest:
        raise CompileError(
            name,
            f"uses opset {versions[0]}",
            expected=f"{OLDEST_OPSET} to {newest}",
            remedy="Export the model anew with one of these",
        )


def convert(model: onnx.ModelProto, name: str, opset: int = CONVERTED_OPSET) -> onnx.ModelProto:
    """The model in another opset."""
    try:
        return onnx.version_converter.convert_version(model, opset)
    except (
        onnx.version_converter.ConvertError,
        onnx.shape_inference.InferenceError,
        ValueError,
        RuntimeError,
    ) as error:
        raise CompileError(name, f"cannot be converted to opset {opset}: {first_line(error)}") from error


def with_layer_normalization(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model in the opset that brought LayerNormalization, if it has one before: ONNX Runtime has long known it.

    Raises CompileError for a model that cannot be converted.
    """
    opset = opset_of(model)
    if opset >= LAYER_NORMALIZATION or not any(map(_is_layer_normalization, model.graph.node)):
        return model
    hidden = onnx.ModelProto()
    hidden.CopyFrom(model)
    for node in filter(_is_layer_normalization, hidden.graph.node):
        node.domain = HIDDEN_DOMAIN
    hidden.opset_import.append(onnx.helper.make_opsetid(HIDDEN_DOMAIN, 1))
    converted = convert(hidden, name, LAYER_NORMALIZATION)
    for node in converted.graph.node:
        if node.domain == HIDDEN_DOMAIN:
            node.domain = ""
    kept = [each for each in converted.opset_import if each.domain != HIDDEN_DOMAIN]
    del converted.opset_import[:]
    converted.opset_import.extend(kept)
    return converted


def _is_layer_normalization(node: onnx.NodeProto) -> bool:
    return node.op_type == "LayerNormalization" and node.domain in (*NAMES_OF_DEFAULT_DOMAIN, HIDDEN_DOMAIN)


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
