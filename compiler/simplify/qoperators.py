"""QOperator models: each QLinear operator is DequantizeLinear, an operator on reals, and QuantizeLinear in one node.

It is taken apart into these, so that the rules for QDQ models apply. The operators are ONNX's QLinearConv and
QLinearMatMul, and those of `compiler.importers.onnx_microsoft`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, Operator, TensorType
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined


@dataclass(frozen=True, slots=True)
class OperandPositions:
    """The positions of a QLinear operator's operands among its inputs; scale and zero point follow each."""

    op_type: str  # the operator on reals
    operands: tuple[int, ...]
    result: int  # of the result's scale
    bias: int | None = None  # int32, in units of both operands' scales


FORMS = {
    "onnx.QLinearConv": OperandPositions("Conv", (0, 3), 6, 8),
    "onnx.QLinearMatMul": OperandPositions("MatMul", (0, 3), 6),
    "onnx.QLinearAdd": OperandPositions("Add", (0, 3), 6),
    "onnx.QLinearAveragePool": OperandPositions("AveragePool", (0,), 3),
    "onnx.QLinearGlobalAveragePool": OperandPositions("GlobalAveragePool", (0,), 3),
    "onnx.QGemm": OperandPositions("Gemm", (0, 3), 7, 6),
    "onnx.QLinearConcat": OperandPositions("Concat", (), 0),
}


def take_apart(operator: Operator, view: GraphView) -> Replacement | None:
    """QLinearX(a, …) → QuantizeLinear(X(DequantizeLinear(a), …))."""
    form = FORMS[operator.kind]
    if form.op_type == "Concat":
        return _take_concat_apart(operator, view)
    inputs = (*operator.inputs, *("",) * 9)
    required = [first + offset for first in form.operands for offset in range(3)] + [form.result, form.result + 1]
    if not all(inputs[position] for position in required):
        raise CompileError(operator, "an operand, scale or zero point is left out", expected="all of them")
    attributes = dict(operator.attributes)
    if attributes.pop("channels_last", 0):
        raise CompileError(operator, "channels_last = 1 has no lowering", expected="0: [N, C, H, W]")
    change = Replacement()
    reals: list[str] = []
    for position, first in enumerate(form.operands):
        axis = _weight_axis(operator, form) if position else None
        made = _dequantized(operator, inputs[first : first + 3], axis, view)
        change = joined(change, made)
        reals += made.operators[-1].outputs
    if form.bias is not None and inputs[form.bias]:
        made = _dequantized_bias(operator, form, inputs[form.bias], view)
        change = joined(change, made)
        reals += made.operators[-1].outputs
    output = operator.outputs[0]
    real = view.fresh(f"{output}.real")
    scale = inputs[form.result : form.result + 2]
    computed = replace(
        operator, kind=f"onnx.{form.op_type}", inputs=tuple(reals), outputs=(real,), attributes=attributes
    )
    quantize = Operator(f"{operator.name}.quantize", "onnx.QuantizeLinear", (real, *scale), (output,))
    types = {real: TensorType("float32", view.type(output).shape)}
    return joined(change, Replacement((computed, quantize), types))


def _take_concat_apart(operator: Operator, view: GraphView) -> Replacement | None:
    """QLinearConcat(scale, zero, a, …) → QuantizeLinear(Concat(DequantizeLinear(a), …))."""
    scale, operands = operator.inputs[:2], operator.inputs[2:]
    if len(operator.inputs) < 5 or len(operands) % 3 or not all(operator.inputs):
        raise CompileError(operator, "an operand, scale or zero point is left out", expected="all of them")
    change = Replacement()
    reals: list[str] = []
    for first in range(0, len(operands), 3):
        made = _dequantized(replace(operator, name=f"{operator.name}.{first}"), operands[first : first + 3], None, view)
        change = joined(change, made)
        reals += made.operators[-1].outputs
    output = operator.outputs[0]
    real = view.fresh(f"{output}.real")
    computed = replace(operator, kind="onnx.Concat", inputs=tuple(reals), outputs=(real,))
    quantize = Operator(f"{operator.name}.quantize", "onnx.QuantizeLinear", (real, *scale), (output,))
    types = {real: TensorType("float32", view.type(output).shape)}
    return joined(change, Replacement((computed, quantize), types))


def _weight_axis(operator: Operator, form: OperandPositions) -> int:
    """The dimension of the second operand that may have a scale for each index."""
    if form.op_type == "Gemm":
        return 0 if operator.attributes.get("transB", 0) else 1
    return 0 if form.op_type == "Conv" else 1


def _dequantized(operator: Operator, inputs: tuple[str, ...], axis: int | None, view: GraphView) -> Replacement:
    """A DequantizeLinear of one operand: its integers, scale and zero point."""
    real = view.fresh(f"{operator.name}.{inputs[0]}.real")
    attributes: dict[str, Attribute] = {} if axis is None else {"axis": axis}
    made = Operator(f"{real}.dequantize", "onnx.DequantizeLinear", inputs, (real,), attributes)
    return Replacement((made,), {real: TensorType("float32", view.type(inputs[0]).shape)})


def _dequantized_bias(operator: Operator, form: OperandPositions, bias: str, view: GraphView) -> Replacement:
    """A DequantizeLinear whose scale is the product of the operands' scales, exact in float64."""
    scales = [view.constant(operator.inputs[first + 1]) for first in form.operands]
    if scales[0] is None or scales[1] is None or scales[0].size != 1:
        raise CompileError(operator, expected="constant scales, and one for its input")
    alpha = np.float64(operator.attributes.get("alpha", 1.0))
    unit = alpha * scales[0].astype(np.float64).reshape(()) * scales[1].astype(np.float64).reshape(-1)
    name = view.fresh(f"{operator.name}.{bias}.scale")
    stored = Replacement((), {name: TensorType("float64", unit.shape)}, {name: np.asarray(unit)})
    axis = len(view.type(bias).shape) - 1
    return joined(stored, _dequantized(operator, (bias, name), axis, view))
