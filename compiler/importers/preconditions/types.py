"""Preconditions of element types: those that ONNX gives each operand of an operator, in the model's opset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import onnx
from onnx import TensorProto

from tilewright.compiler.errors import DamagedModel, NodeName


def check_types(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Raises DamagedModel for the first operand of a type that its operator does not take; `names` are of the nodes.

    What is of no known type, and operators that the onnx package does not know, are passed over.
    """
    graph = model.graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    opsets = {opset.domain or "": opset.version for opset in model.opset_import}
    for name, node in zip(names, graph.node, strict=True):
        with suppress(onnx.defs.SchemaError):
            schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
            for operand, meant in zip(node.input, _formals(schema, len(node.input)), strict=False):
                if types.get(operand, TensorProto.UNDEFINED) != TensorProto.UNDEFINED:
                    _require(NodeName(name, node.op_type), operand, types[operand], meant)


def _formals(schema: onnx.defs.OpSchema, count: int) -> list[onnx.defs.OpSchema.FormalParameter]:
    """What the schema says of each of so many operands; the last of a list may stand for several."""
    meant = list(schema.inputs)
    return meant + meant[-1:] * (count - len(meant))


def _require(node: NodeName, operand: str, element: int, meant: onnx.defs.OpSchema.FormalParameter) -> None:
    came = TensorProto.DataType.Name(element).lower()
    if f"tensor({came})" in meant.types or not any(kind.startswith("tensor(") for kind in meant.types):
        return
    known = sorted(kind.removeprefix("tensor(").removesuffix(")") for kind in meant.types if kind.startswith("tensor("))
    error = DamagedModel(node, f"its operand {meant.name}, {operand!r}, is {came}", expected=", ".join(known))
    error.nodes = (node.name,)
    raise error
