"""Operators that are newer than the opsets in which QDQ networks are written, as the nodes that ONNX defines them by.

Examples: Attention, RotaryEmbedding, RMSNormalization, Swish. Source: the function bodies in ONNX's own schemas.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx.inliner import inline_local_functions

from tilewright.compiler.errors import CompileError, first_line

DOMAIN = "tilewright.expanded"
"""Of the functions that take the nodes' places for a moment."""


def expand_newer(model: onnx.ModelProto, opset: int, newest: int, name: str) -> onnx.ModelProto:
    """The model, of an opset, without operators that `newest` lacks and ONNX defines by others; raises CompileError."""
    newer = [node for node in model.graph.node if _is_newer(node, newest)]
    if not newer:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    types = _types(model, name)
    for number, node in enumerate(made.graph.node):
        if not _is_newer(node, newest):
            continue
        body = _body(node, types, opset)
        if body is None:
            continue
        body.name, body.domain = f"{node.op_type}_{number}", DOMAIN
        for position, inner in enumerate(body.node):
            inner.name = f"{node.name or body.name}.{inner.op_type}_{position}"
        made.functions.append(body)
        node.op_type, node.domain = body.name, DOMAIN
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    try:
        expanded = inline_local_functions(made)
    except (RuntimeError, ValueError) as error:
        raise CompileError(name, f"its newer operators cannot be written out: {first_line(error)}") from error
    kept = [each for each in expanded.opset_import if each.domain != DOMAIN]
    del expanded.opset_import[:]
    expanded.opset_import.extend(kept)
    return expanded


def _is_newer(node: onnx.NodeProto, newest: int) -> bool:
    """Whether there was no operator of this name yet."""
    if node.domain:
        return False
    try:
        onnx.defs.get_schema(node.op_type, newest)
    except onnx.defs.SchemaError:
        return onnx.defs.has(node.op_type)
    return False


def _types(model: onnx.ModelProto, name: str) -> dict[str, onnx.TypeProto]:
    try:
        graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise CompileError(name, f"shapes do not fit: {first_line(error)}") from error
    types = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
    types |= {t.name: onnx.helper.make_tensor_type_proto(t.data_type, list(t.dims)) for t in graph.initializer}
    return types


def _body(node: onnx.NodeProto, types: dict[str, onnx.TypeProto], opset: int) -> onnx.FunctionProto | None:
    """The function that a node is, or None; a node whose function reads attributes gets all of them."""
    schema: Any = onnx.defs.get_schema(node.op_type, opset)
    if schema.has_context_dependent_function:
        given = [types.get(tensor, onnx.TypeProto()).SerializeToString() for tensor in node.input]
        body = schema.get_context_dependent_function(node.SerializeToString(), given)
        del node.attribute[:]  # the body has their values
    elif schema.has_function:
        body = schema.get_function_with_opset_version(opset)
        named = {attribute.name for attribute in node.attribute}
        defaults = ((name, attribute.default_value) for name, attribute in schema.attributes.items())
        node.attribute.extend(value for name, value in defaults if name not in named and value.name)
    else:
        return None
    return onnx.FunctionProto.FromString(body)
