"""The terms of a statement when it is multiplied out."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op


def terms(expr: Expr) -> tuple[int, int]:
    """How many terms the sum has that an expression is when multiplied out: those with an operand, and the others.

    Each of the former may be a product of a network. `(a + p.bias) * p.scale + zero` has 2 and 1. Of what is no sum or
    product, such as a maximum, each argument's terms count; a shift's are those of what it shifts. A dot product is one
    product of each row of its tile.
    """
    match expr.op:
        case Op.SOURCE | Op.LUT:
            return 1, 0
        case Op.CONST | Op.IMMEDIATE:
            return 0, 1
        case Op.MUL | Op.DOT:
            (a, a_others), (b, b_others) = map(terms, expr.args)
            return a * b + a * b_others + a_others * b, a_others * b_others
    found = [terms(arg) for arg in (expr.args[:1] if expr.op.facts.is_shift else expr.args)]
    return sum(own for own, _ in found), sum(others for _, others in found)
