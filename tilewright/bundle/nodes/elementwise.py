"""Operators of single elements: an expression of C for each, over operands that are repeated as ONNX says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.bundle.nodes.code import (
    C_TYPES,
    CNode,
    Code,
    Elements,
    ElementWalk,
    NoCode,
    NodeOperand,
    broadcast,
    literal,
    require_floats,
    row_major,
)

EXPRESSIONS: Mapping[str, str] = {
    "Add": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "Div": "{0} / {1}",
    "Max": "{0} > {1} ? {0} : {1}",
    "Min": "{0} < {1} ? {0} : {1}",
    "Neg": "-{0}",
    "Abs": "{0} < 0.0F ? -{0} : {0}",
    "Reciprocal": "1.0F / {0}",
    "Sqrt": "tilewright_sqrt({0})",
    "Relu": "{0} > 0.0F ? {0} : 0.0F",
    "LeakyRelu": "{0} >= 0.0F ? {0} : {alpha} * {0}",
    "HardSigmoid": "tilewright_clip({alpha} * {0} + {beta}, 0.0F, 1.0F)",
    "HardSwish": "{0} * tilewright_clip({0} * 0.166666672F + 0.5F, 0.0F, 1.0F)",
    "Exp": "tilewright_exp({0})",
    "Sigmoid": "1.0F / (1.0F + tilewright_exp(-{0}))",
    "Tanh": "tilewright_tanh({0})",
    "Erf": "tilewright_erf({0})",
}
"""Of float32; {0} is an element of the first operand, and {alpha} an attribute."""

DEFAULTS: Mapping[str, Mapping[str, float]] = {"LeakyRelu": {"alpha": 0.01}, "HardSigmoid": {"alpha": 0.2, "beta": 0.5}}
"""Attributes that an expression has, with ONNX's defaults."""

POWERS: Mapping[float, str] = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}"}
"""What ONNX Runtime multiplies instead of raising it to a power."""


def elementwise(node: CNode, code: Code) -> list[str]:
    """The operators of EXPRESSIONS."""
    expression = EXPRESSIONS[node.op_type]
    expected = 2 if "{1}" in expression else 1
    if len(node.inputs) != expected:
        raise NoCode(f"it has {len(node.inputs)} operands; expected {expected}")
    given = {**DEFAULTS.get(node.op_type, {}), **node.attributes}
    attributes = {name: literal(np.float32(value), "float32") for name, value in given.items()}
    return _each(node, code, list(map(node.required, range(expected))), expression, attributes)


def power(node: CNode, code: Code) -> list[str]:
    exponent = node.constant(1, "exponent")
    chosen = None if exponent is None or exponent.size != 1 else POWERS.get(float(exponent.reshape(-1)[0]))
    if chosen is None:
        raise NoCode("its exponent is neither 2 nor 3")
    return _each(node, code, [node.required(0)], chosen, {})


def clip(node: CNode, code: Code) -> list[str]:
    ends = (node.constant(1, "lower end"), node.constant(2, "upper end"))
    extreme = float(np.finfo(np.float32).max)
    low, high = (
        literal(np.float32(sign * extreme if end is None else end.reshape(-1)[0]), "float32")
        for end, sign in zip(ends, (-1, 1), strict=True)
    )
    return _each(node, code, [node.required(0)], f"tilewright_clip({{0}}, {low}, {high})", {})


def quantize(node: CNode, code: Code) -> list[str]:
    x, scale, y = node.required(0), node.required(1), node.outputs[0]
    require_floats(x, scale)
    if not _is_narrow(y.dtype):
        raise NoCode(f"its result is {y.dtype}")
    limits = np.iinfo(y.dtype)
    walks = {"x": broadcast(x, y.shape), **_along(node, x.shape), "y": ElementWalk(y, row_major(y.shape))}

    def body(at: Elements) -> list[str]:
        call = f"tilewright_quantize({at['x']}, {at['scale']}, {at.get('zero', '0')}, {limits.min}, {limits.max})"
        return [f"{at['y']} = ({C_TYPES[y.dtype]}){call};"]

    return code.loops(y.shape, walks, body)


def _is_narrow(dtype: str) -> bool:
    """Integers that float32 holds and that tensors are quantised to: of one or two bytes."""
    return np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize <= 2


def dequantize(node: CNode, code: Code) -> list[str]:
    x, scale, y = node.required(0), node.required(1), node.outputs[0]
    require_floats(scale, y)
    if not _is_narrow(x.dtype) and x.dtype != "int32":
        raise NoCode(f"its operand is {x.dtype}")
    zero = node.input(2)
    if x.dtype == "int32" and zero is not None and (zero.value is None or zero.value.any()):
        raise NoCode("it is of int32 with a zero point")
    walks = {"x": broadcast(x, y.shape), **_along(node, x.shape), "y": ElementWalk(y, row_major(y.shape))}

    def body(at: Elements) -> list[str]:
        integer = f"({at['x']} - {at['zero']})" if "zero" in at and x.dtype != "int32" else at["x"]
        return [f"{at['y']} = (float){integer} * {at['scale']};"]

    return code.loops(y.shape, walks, body)


def _along(node: CNode, shape: tuple[int, ...]) -> dict[str, ElementWalk]:
    """Scale and zero point: one for all, or one for each place of an axis."""
    found = {}
    for name, operand in (("scale", node.required(1)), ("zero", node.input(2))):
        if operand is None:
            continue
        axis = node.attributes.get("axis", 1) % max(1, len(shape))
        if operand.elements > 1 and (len(operand.shape) != 1 or operand.elements != shape[axis]):
            raise NoCode(f"it has scales of shape {list(operand.shape)}; expected one, or one for each of axis {axis}")
        steps = [int(operand.elements > 1 and at == axis) for at in range(len(shape))]
        found[name] = ElementWalk(operand, tuple(steps))
    return found


def _each(
    node: CNode, code: Code, operands: list[NodeOperand], expression: str, attributes: Mapping[str, Any]
) -> list[str]:
    y = node.outputs[0]
    require_floats(*operands, y)
    walks = {str(number): broadcast(operand, y.shape) for number, operand in enumerate(operands)}

    def body(at: Elements) -> list[str]:
        text = expression.format(*(at[str(number)] for number in range(len(operands))), **attributes)
        return [f"{at['y']} = {text};"]

    return code.loops(y.shape, {**walks, "y": ElementWalk(y, row_major(y.shape))}, body)
