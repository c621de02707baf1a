"""Statements printed as mathematics, in Unicode, as the manual shows them."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat

_INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "·"}
_RELATIONS = {Op.LESS: "<", Op.LESS_EQUAL: "≤", Op.EQUAL: "=", Op.NOT_EQUAL: "≠"}
_REDUCTIONS = {Op.SUM: "Σ", Op.MAX_OVER: "max", Op.MIN_OVER: "min", Op.LANES_SUM: "Σ", Op.LANES_MAX: "max"}
_PRECEDENCE = {Op.ADD: 1, Op.SUB: 1, Op.MUL: 2}
_ATOM = 3


def statement_mathematics(of: InstructionFormat) -> str:
    """`y ← clamp(⌊(a - a_zero) · scale / 2^shift⌉ + zero, low, high)`; ⌊…⌉ is rounding to the nearest integer."""
    text, _ = _print(of.statement.expr, of)
    return f"{of.destination.name} ← {text}"


def _print(expr: Expr, of: InstructionFormat) -> tuple[str, int]:
    """An expression and how tightly its outermost operator binds."""
    if _is_clamp(expr):
        value, low, high = expr.args[0].args[0], expr.args[0].args[1], expr.args[1]
        return f"clamp({', '.join(_print(part, of)[0] for part in (value, low, high))})", _ATOM
    match expr.op:
        case Op.CONST:
            return str(expr.value), _ATOM if expr.value >= 0 else 1
        case Op.SOURCE | Op.IMMEDIATE:
            return f"{expr.name}.{expr.field}" if expr.field else expr.name, _ATOM
        case Op.WRAP:
            return f"wrap_{expr.type}({_print(expr.args[0], of)[0]})", _ATOM
        case Op.LUT:
            index = expr.args[0]
            text, first = _print(index, of)[0], index.range.low
            return f"{expr.name}[{text}{f' - {first}' if first > 0 else f' + {-first}' if first < 0 else ''}]", _ATOM
        case Op.DOT:
            a, w = expr.args
            if w.op is Op.TRANSPOSE:
                return f"Σ[row] {a.name}[row] · {w.args[0].name}[col, row]", 1
            return f"Σ[row] {a.name}[row] · {w.name}[row, col]", 1
        case Op.SUM | Op.MAX_OVER | Op.MIN_OVER:
            return f"{_REDUCTIONS[expr.op]}[{', '.join(of.reduce_loops)}] {_bound(expr.args[0], of, 2)}", 1
        case Op.LANES_SUM | Op.LANES_MAX:
            return f"{_REDUCTIONS[expr.op]}[lane] {_bound(expr.args[0], of, 2)}", 1
        case Op.ROUND_SHIFT:
            return f"⌊{_bound(expr.args[0], of, 2)} / 2^{_bound(expr.args[1], of, _ATOM)}⌉", _ATOM
        case Op.SHIFT_RIGHT:
            return f"⌊{_bound(expr.args[0], of, 2)} / 2^{_bound(expr.args[1], of, _ATOM)}⌋", _ATOM
        case Op.SHIFT_LEFT:
            return f"{_bound(expr.args[0], of, 2)} · 2^{_bound(expr.args[1], of, _ATOM)}", 2
        case Op.ABS:
            return f"|{_print(expr.args[0], of)[0]}|", _ATOM
        case Op.WHERE:
            condition, yes, no = (_print(arg, of)[0] for arg in expr.args)
            return f"({yes} if {condition} ≠ 0, else {no})", _ATOM
        case _ if expr.op in _RELATIONS:
            left, right = (_bound(arg, of, 1) for arg in expr.args)
            return f"[{left} {_RELATIONS[expr.op]} {right}]", _ATOM
        case _ if expr.op in _INFIX:
            mine = _PRECEDENCE[expr.op]
            left, right = _bound(expr.args[0], of, mine), _bound(expr.args[1], of, mine + (expr.op is Op.SUB))
            return f"{left} {_INFIX[expr.op]} {right}", mine
        case _:
            return f"{expr.op.value}({', '.join(_print(arg, of)[0] for arg in expr.args)})", _ATOM


def _bound(expr: Expr, of: InstructionFormat, tightness: int) -> str:
    """An expression, in parentheses if it binds less tightly."""
    text, mine = _print(expr, of)
    return text if mine >= tightness else f"({text})"


def _is_clamp(expr: Expr) -> bool:
    return expr.op is Op.MIN and expr.args[0].op is Op.MAX
