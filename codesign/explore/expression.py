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
"""Longer expressions are no constraints."""

MAX_DEPTH = 150
"""Deeper ones would exhaust the stack."""

LARGEST = 1e36
"""No number of a machine or a network comes near; within it, no number takes more than some bytes."""

Value = int | float | str | None
Names = Mapping[str, Any]

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
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

_WORDS = (ast.Eq, ast.NotEq)
"""Comparisons that words take, too."""

_CALLS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}

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
            self.names = frozenset(_names(self._tree, MAX_DEPTH))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise StudyError(f"{short(text)} is not a constraint; {EXPECTED}") from error

    def value(self, names: Names) -> Value:
        """What it comes to. Raises StudyError where it divides by zero, computes with words, or grows beyond use."""
        try:
            return _value(self._tree, names)
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise StudyError(f"`{self.text}` has no value: {error}") from error

    def gap(self, names: Names) -> float:
        """How far it is from being met: 0 where it is; by what the sides of a comparison differ; else without end."""
        try:
            return _gap(self._tree, names)
        except (ZeroDivisionError, ValueError, OverflowError):
            return math.inf


def _names(node: ast.expr, depth: int) -> list[str]:
    """The names in a tree, every node of which is one that `_value` knows. Raises ValueError for any other."""
    match node:
        case ast.Constant(value=int() | float() as number) if abs(number) <= LARGEST:
            return []
        case ast.Constant(value=str()):
            return []
        case ast.Name() | ast.Attribute():
            return [_dotted(node)]
    parts = _parts(node)
    if depth == 0 or not parts:
        raise ValueError(type(node).__name__)
    return [name for part in parts for name in _names(part, depth - 1)]


def _parts(node: ast.expr) -> list[ast.expr]:
    """What an operation is of; nothing for what is none of ours."""
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return [left, right]
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
            return [left, *rest]
        case ast.BoolOp(values=parts):
            return parts
        case ast.Call(func=ast.Name(id=word), args=[_, *_] as parts, keywords=[]) if word in _CALLS:
            return parts
    return []


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
            return sum(abs(_number(a) - _number(b)) for op, a, b in pairs if not _holds(op, a, b))
        case ast.BoolOp(op=op, values=parts):
            return (sum if isinstance(op, ast.And) else min)(_gap(part, names) for part in parts)
    return 0.0 if _value(node, names) else math.inf


def _value(node: ast.expr, names: Names) -> Value:
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.Name() | ast.Attribute():
            return _known(_dotted(node), names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, names))
        case ast.UnaryOp(operand=operand):
            return not _value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _number(_BINARY[type(op)](_number(_value(left, names)), _number(_value(right, names))))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(part, names) for part in (left, *rest)]
            return all(_holds(op, a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(_value(part, names) for part in parts)
        case ast.Call(func=ast.Name(id=word), args=parts):
            numbers = [_number(_value(part, names)) for part in parts]
            return _CALLS[word](numbers)
    raise AssertionError(node)


def _known(name: str, names: Names) -> Value:
    if name not in names:
        raise ValueError(f"{name} is not known")
    value: Value = names[name]
    return value


def _holds(op: ast.cmpop, left: Value, right: Value) -> bool:
    """A comparison: words are equal or not, and everything else is of numbers."""
    if isinstance(op, _WORDS):
        return _COMPARE[type(op)](left, right)
    return _COMPARE[type(op)](_number(left), _number(right))


def _number(value: Value) -> int | float:
    """The value if it is a number. Raises ValueError for a word, and for what grows beyond use."""
    if not isinstance(value, int | float):
        raise ValueError(f"{short(value)} is no number")
    if not abs(value) <= LARGEST:
        raise ValueError("a number grows too large")
    return value
