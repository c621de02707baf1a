"""Operators of ONNX Runtime's domain `com.microsoft`, each as a function of ONNX's own, for checks and inferred shapes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. What they become is the business of
`compiler.simplify.qoperators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from onnx import parser

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

OPERATORS = (*FUNCTIONS, CONCAT)

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


def with_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the functions of the operators that it uses, so that ONNX infers their shapes."""
    used = sorted({node.op_type for node in model.graph.node if node.domain == DOMAIN and node.op_type in FUNCTIONS})
    counts = sorted({len(node.input) // 3 for node in model.graph.node if _is_concat(node)})
    if not used and not counts:
        return model
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    for node in filter(_is_concat, extended.graph.node):
        node.overload = str(len(node.input) // 3)
    present = {(function.domain, function.name, function.overload) for function in extended.functions}
    wanted = (*map(function_of, used), *map(concat_of, counts))
    extended.functions.extend(each for each in wanted if (each.domain, each.name, each.overload) not in present)
    return extended


def _is_concat(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, CONCAT)
