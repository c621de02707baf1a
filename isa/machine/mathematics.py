"""Statements printed as mathematics, in Unicode, as the manual shows them."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.notation import Notation, Tightness
from tilewright.isa.language.operations import OVER_WORDS, Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Template


def statement_mathematics(format: InstructionFormat) -> str:
    """`y ← clamp(⌊(a - a_zero) · scale / 2^shift⌉ + zero, low, high)`; ⌊…⌉ is rounding to the nearest integer."""
    text, _ = _print(format.statement.expr, format)
    return f"{format.destination.name} ← {text}"


def _print(expr: Expr, format: InstructionFormat) -> tuple[str, Tightness]:
    """An expression and how tightly its outermost operation binds."""
    if _is_clamp(expr):
        value, low, high = expr.args[0].args[0], expr.args[0].args[1], expr.args[1]
        return f"clamp({', '.join(_print(part, format)[0] for part in (value, low, high))})", Tightness.ATOM
    match expr.op:
        case Op.CONST:
            return str(expr.value), Tightness.ATOM if expr.value >= 0 else Tightness.SUM
        case Op.SOURCE | Op.IMMEDIATE:
            return f"{expr.name}.{expr.field}" if expr.field else expr.name, Tightness.ATOM
        case Op.DOT:
            a, w = expr.args
            column = "lane" if format.engine.template is Template.VECTOR else "col"
            if w.op is Op.TRANSPOSE:
                return f"Σ[row] {a.name}[row] · {w.args[0].name}[{column}, row]", Tightness.SUM
            return f"Σ[row] {a.name}[row] · {w.name}[row, {column}]", Tightness.SUM
        case op:
            return _fill(op.facts.notation or _as_call(op), expr, format)


def _fill(notation: Notation, expr: Expr, format: InstructionFormat) -> tuple[str, Tightness]:
    arguments = [_bound(arg, format, notation.argument(position)) for position, arg in enumerate(_said(expr))]
    text = notation.template.format(
        *arguments,
        name=expr.name,
        type=expr.type,
        offset=_offset(expr.args[0].range.low),
        loops=", ".join(format.reduce_loops),
    )
    return text, notation.binds


def _said(expr: Expr) -> tuple[Expr, ...]:
    """The arguments that a statement says: of an operation on words, what it takes of each."""
    return expr.args[:1] if expr.op in OVER_WORDS else expr.args


def _as_call(op: Op) -> Notation:
    """`word({0}, {1})`, of an operation that mathematics has no sign for."""
    places = (f"{{{position}}}" for position in range(op.facts.arity))
    return Notation(f"{op.value}({', '.join(places)})")


def _offset(least: int) -> str:
    """What takes the least value off an index."""
    return f" - {least}" if least > 0 else f" + {-least}" if least < 0 else ""


def _bound(expr: Expr, format: InstructionFormat, tightness: Tightness) -> str:
    """An expression, in parentheses if it binds less tightly."""
    text, mine = _print(expr, format)
    return text if mine >= tightness else f"({text})"


def _is_clamp(expr: Expr) -> bool:
    return expr.op is Op.MIN and expr.args[0].op is Op.MAX
