"""Constraints of a space: expressions over keys and figures such as `memories.act.kib + memories.wgt.kib <= 400`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.codesign.errors import StudyError
from tilewright.isa.errors import short

MAX_CHARACTERS = 500
"""Longer expressions are no constraints, and deeply nested ones would exhaust the stack."""

Names = Mapping[str, Any]

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_CALLS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max}

EXPECTED = "expected numbers, keys, figures, + - * / // %, min, max, comparisons, and, or, not"


class Expression:
    """A parsed constraint: its text, and the keys and figures that it uses."""

    def __init__(self, text: str) -> None:
        """Raises StudyError for a text that is no expression of this kind."""
        self.text = text.strip()
        try:
            if len(text) > MAX_CHARACTERS:
                raise ValueError("too long")
            self._tree = ast.parse(self.text, mode="eval").body
            self.names = frozenset(_names(self._tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise StudyError(f"{short(text)} is not a constraint; {EXPECTED}") from error

    def value(self, names: Names) -> Any:
        """What it comes to. Raises StudyError where it divides by zero or mixes words and numbers."""
        try:
            return _value(self._tree, names)
        except (ZeroDivisionError, TypeError, OverflowError) as error:
            raise StudyError(f"`{self.text}` has no value: {error}") from error

    def gap(self, names: Names) -> float:
        """How far it is from being met: 0 where it is; by what the sides of a comparison differ; else without end."""
        try:
            return _gap(self._tree, names)
        except (ZeroDivisionError, TypeError, OverflowError):
            return math.inf


def _names(node: ast.expr) -> list[str]:
    """The names in a tree, every node of which is one that `_value` knows. Raises ValueError for any other."""
    match node:
        case ast.Constant(value=int() | float() | str()):
            return []
        case ast.Name() | ast.Attribute():
            return [_dotted(node)]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            return _names(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _names(left) + _names(right)
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
            return [name for part in (left, *rest) for name in _names(part)]
        case ast.BoolOp(values=parts):
            return [name for part in parts for name in _names(part)]
        case ast.Call(func=ast.Name(id=word), args=[_, *_] as parts, keywords=[]) if word in _CALLS:
            return [name for part in parts for name in _names(part)]
    raise ValueError(ast.unparse(node))


def _dotted(node: ast.expr) -> str:
    """`memories.act.kib`, which Python reads as two attributes."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=below, attr=name):
            return f"{_dotted(below)}.{name}"
    raise ValueError(ast.unparse(node))


def _gap(node: ast.expr, names: Names) -> float:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(part, names) for part in (left, *rest)]
            pairs = zip(ops, values, values[1:], strict=False)
            return sum(float(abs(a - b)) for op, a, b in pairs if not _COMPARE[type(op)](a, b))
        case ast.BoolOp(op=op, values=parts):
            return (sum if isinstance(op, ast.And) else min)(_gap(part, names) for part in parts)
    return 0.0 if _value(node, names) else math.inf


def _value(node: ast.expr, names: Names) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return names[_dotted(node)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(operand=operand):
            return not _value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(part, names) for part in (left, *rest)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(_value(part, names) for part in parts)
        case ast.Call(func=ast.Name(id=word), args=parts):
            return _CALLS[word](*(_value(part, names) for part in parts))
    raise AssertionError(node)
