"""Numbers of a machine file: integers, or expressions over parameters such as `act_kib * 1024 // lanes`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from tilewright.isa.errors import IsaError, did_you_mean, short

MAX_MAGNITUDE = 1 << 48

_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_NO_EXPRESSION = "`{}` is not an integer expression (+ - * // % min max and comparisons)"

MAX_EXPRESSION_CHARACTERS = 200
"""Longer expressions cannot be arithmetic of sizes, and deeply nested ones would exhaust the stack."""


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The integer that an expression (+ - * // % and parentheses, min, max, comparisons as 0 or 1) stands for.

    Raises IsaError for anything else, an unknown name, division by zero or a huge value.
    """
    try:
        if len(text) > MAX_EXPRESSION_CHARACTERS:
            raise ValueError("too long")
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name) and node.id not in names:
            raise IsaError(f"expected an integer; {_unknown(node.id, names)}")
        return evaluate_node(node, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise IsaError(f"{short(text)} is not a number or an expression over parameters") from error


def names_in(text: str) -> frozenset[str]:
    """The names that an expression uses; none if it is no expression."""
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= MAX_EXPRESSION_CHARACTERS else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) if tree else frozenset()


def evaluate_node(node: ast.expr, names: Mapping[str, int]) -> int:
    """As `evaluate`, for a parsed expression."""
    value = _evaluate(node, names)
    if abs(value) > MAX_MAGNITUDE:
        raise IsaError(f"`{ast.unparse(node)}` is {value}; expected at most 2**48")
    return value


def _evaluate(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise IsaError(_unknown(name, names))
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate_node(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(node, evaluate_node(left, names), op, evaluate_node(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return int(_COMPARE[type(op)](evaluate_node(left, names), evaluate_node(right, names)))
        case ast.Call(func=ast.Name(id="min" | "max" as word), args=[_, *_] as args, keywords=[]):
            values = [evaluate_node(arg, names) for arg in args]
            return min(values) if word == "min" else max(values)
    raise IsaError(_NO_EXPRESSION.format(ast.unparse(node)))


def _unknown(name: str, names: Mapping[str, int]) -> str:
    known = ", ".join(names) or "none"
    return f"unknown parameter {name!r}{did_you_mean(name, list(names))}; there are: {known}"


def _binary(node: ast.BinOp, a: int, op: ast.operator, b: int) -> int:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() | ast.Mod() if b == 0:
            raise IsaError(f"`{ast.unparse(node)}` divides by zero")
        case ast.FloorDiv():
            return a // b
        case ast.Mod():
            return a % b
    raise IsaError(_NO_EXPRESSION.format(ast.unparse(node)))
