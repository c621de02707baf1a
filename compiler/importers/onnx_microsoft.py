"""Operators of ONNX Runtime's domain `com.microsoft`, each as a function of ONNX's own, for checks and inferred shapes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. What they become is the business of
`compiler.simplify.qoperators`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

import onnx
from onnx import helper, parser

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.importers.microsoft_bodies import BODIES, Rank, body_of

DOMAIN = "com.microsoft"

POOL = "auto_pad:string ceil_mode:int count_include_pad:int kernel_shape:ints pads:ints strides:ints"
"""Attributes that QLinearAveragePool hands on to AveragePool."""

FUNCTIONS: Mapping[str, tuple[str, str, str, str]] = {
    "QLinearAdd": ("a, a_scale, a_zero, b, b_scale, b_zero", "Add", "A, B", ""),
    "QLinearAveragePool": ("a, a_scale, a_zero", "AveragePool", "A", POOL),
    "QLinearGlobalAveragePool": ("a, a_scale, a_zero", "GlobalAveragePool", "A", ""),
    "QGemm": ("a, a_scale, a_zero, b, b_scale, b_zero, c", "Gemm", "A, B", "alpha:float transA:int transB:int"),
}
"""Operator → its inputs before the result's scale and zero point; the ONNX operator on reals, its operands and its
attributes."""

CONCAT = "QLinearConcat"
"""Concat takes any number of operands, so each number needs a function of its own."""

AS_IN_ONNX = ("QuantizeLinear", "DequantizeLinear", "QLinearConv")
"""Operators of ONNX that are in this domain as well, and mean the same there."""

OPERATORS = (*FUNCTIONS, CONCAT, *AS_IN_ONNX, *BODIES)

WRITTEN_OUT: Mapping[str, str] = {
    "MultiHeadAttention": "operands of known sizes; a padding mask as [batch], [batch, keys] or [batch, tokens, keys]; "
    "no cache that is filled in place; and a float network",
}
"""Operators that `quantize` writes out as ONNX's own where they are of this form; other nodes come here as they are."""


@cache
def concat_of(count: int) -> onnx.FunctionProto:
    """QLinearConcat with this many operands, each with its scale and zero point."""
    inputs = ", ".join(f"x{i}, x{i}_scale, x{i}_zero" for i in range(count))
    steps = [f"R{i} = DequantizeLinear(x{i}, x{i}_scale, x{i}_zero)" for i in range(count)]
    steps.append(f"R = Concat <axis: int = @axis> ({', '.join(f'R{i}' for i in range(count))})")
    steps.append("y = QuantizeLinear(R, y_scale, y_zero)")
    function: onnx.FunctionProto = parser.parse_function(
        f'<domain: "{DOMAIN}", opset_import: ["" : 13]> '
        f"{CONCAT} <axis> (y_scale, y_zero, {inputs}) => (y) {{ {' '.join(steps)} }}"
    )
    function.overload = str(count)
    return function


@cache
def function_of(op_type: str) -> onnx.FunctionProto:
    """The operator as a function: dequantise, compute, quantise. A QGemm's bias does not change the shape."""
    inputs, operator, operands, given = FUNCTIONS[op_type]
    attributes = [attribute.split(":") for attribute in given.split()]
    names = ", ".join(name for name, _ in attributes)
    handed_on = ", ".join(f"{name}: {kind} = @{name}" for name, kind in attributes)
    steps = [
        f"{name.upper()} = DequantizeLinear({name}, {name}_scale, {name}_zero)" for name in operands.lower().split(", ")
    ]
    steps.append(f"R = {operator} {f'<{handed_on}>' if handed_on else ''} ({operands})")
    steps.append("y = QuantizeLinear(R, y_scale, y_zero)")
    function: onnx.FunctionProto = parser.parse_function(
        f'<domain: "{DOMAIN}", opset_import: ["" : 13]> '
        f"{op_type} {f'<{names}>' if names else ''} ({inputs}, y_scale, y_zero) => (y) {{ {' '.join(steps)} }}"
    )
    return function


OPSET_OF_FUNCTIONS = 21
"""The operator set in which functions are written that are not in the table: it has integers of 16 bits."""


def with_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the functions of the operators that it uses, so that ONNX infers their shapes.

    Each function has an `overload`, which its nodes name. A node of a form that has none stays as it is.
    """
    positions = [position for position, node in enumerate(model.graph.node) if node.domain == DOMAIN]
    if not positions:
        return model
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    ranks = _ranks(model)
    functions: dict[tuple[str, str], onnx.FunctionProto] = {}
    for position in positions:
        node = extended.graph.node[position]
        with suppress(CompileError):
            function = _function_for(node, lambda name: ranks.get(name))
            if function is not None:
                node.overload = function.overload
                functions[function.name, function.overload] = function
    present = {(function.domain, function.name, function.overload) for function in extended.functions}
    wanted = functions.values()
    extended.functions.extend(each for each in wanted if (each.domain, each.name, each.overload) not in present)
    return extended


def without_overloads(model: onnx.ModelProto) -> None:
    """Take back what `with_functions` wrote to the model's nodes, and its functions."""
    for node in model.graph.node:
        if node.domain == DOMAIN and node.overload:
            node.ClearField("overload")
    kept = [function for function in model.functions if function.domain != DOMAIN]
    del model.functions[:]
    model.functions.extend(kept)


def require_form(node: onnx.NodeProto) -> None:
    """Raise CompileError for a node of this domain whose attributes or operands are not of a form that is known."""
    if node.op_type in BODIES:
        body_of(node, OPSET_OF_FUNCTIONS, lambda name: None)
    elif node.op_type in WRITTEN_OUT:
        fact = f"operator {node.op_type} of the domain {node.domain!r} is not of the form that quantize writes out"
        raise CompileError(NodeName(node.name), fact, expected=WRITTEN_OUT[node.op_type])
    elif node.op_type not in OPERATORS:
        fact = f"unknown operator {node.op_type} of the domain {node.domain!r}"
        raise CompileError(NodeName(node.name), fact, expected=f"operators of ONNX, or {', '.join(OPERATORS)}")


def _function_for(node: onnx.NodeProto, rank: Rank) -> onnx.FunctionProto | None:
    """The function that a node of this domain is, if there is one; raises CompileError for a form without."""
    if node.op_type == CONCAT:
        return concat_of(len(node.input) // 3)
    if node.op_type in FUNCTIONS:
        return function_of(node.op_type)
    if node.op_type in AS_IN_ONNX:
        return _same_in_onnx(node)
    return _written_function(node, rank) if node.op_type in BODIES else None


def _formal(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with operands i0, i1, … and results o0, o1, …; what is left out stays so."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = ""
    made.input[:] = [f"i{position}" if name else "" for position, name in enumerate(node.input)]
    made.output[:] = [f"o{position}" if name else "" for position, name in enumerate(node.output)]
    return made


def _written_function(node: onnx.NodeProto, rank: Rank) -> onnx.FunctionProto:
    ranks = {f"i{position}": rank(name) for position, name in enumerate(node.input)}
    formal = _formal(node)
    body = body_of(formal, OPSET_OF_FUNCTIONS, ranks.get)
    return _function(formal, body, repr(ranks))


def _same_in_onnx(node: onnx.NodeProto) -> onnx.FunctionProto:
    """ONNX's operator of the same name. Raises CompileError for one with the channels last, which ONNX's has not."""
    if any(attribute.name == "channels_last" and attribute.i for attribute in node.attribute):
        raise CompileError(NodeName(node.name, node.op_type), "channels_last = 1", expected="0: [N, C, H, W]")
    formal = _formal(node)
    same = onnx.NodeProto()
    same.CopyFrom(formal)
    same.domain = ""
    given = [attribute for attribute in node.attribute if attribute.name != "channels_last"]
    del same.attribute[:]
    same.attribute.extend(given)
    return _function(formal, [same], "")


def _function(formal: onnx.NodeProto, body: list[onnx.NodeProto], variant: str) -> onnx.FunctionProto:
    """A function of this body; its overload tells it from those of other attributes and operands."""
    key = formal.SerializeToString(deterministic=True) + variant.encode()
    results = [name or f"left_out{position}" for position, name in enumerate(formal.output)]
    for name in results:
        if name not in formal.output:  # what nobody reads has to be made all the same
            body = [*body, helper.make_node("Identity", [results[0]], [name])]
    return helper.make_function(
        DOMAIN,
        formal.op_type,
        [f"i{position}" for position in range(len(formal.input))],
        results,
        body,
        [helper.make_opsetid("", OPSET_OF_FUNCTIONS)],
        [attribute.name for attribute in formal.attribute],
        overload=hashlib.sha256(key).hexdigest()[:16],
    )


def _ranks(model: onnx.ModelProto) -> dict[str, int]:
    """The number of dimensions of each tensor for which the model says it."""
    found = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        if value.type.tensor_type.HasField("shape"):
            found.setdefault(value.name, len(value.type.tensor_type.shape.dim))
    return found
