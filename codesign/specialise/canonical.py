"""One form for expressions that differ only in the order of arguments."""

from __future__ import annotations

from dataclasses import replace

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op


def canonical(expr: Expr) -> Expr:
    """The expression with the larger argument of a commutative operation first, and a number last."""
    args = tuple(canonical(arg) for arg in expr.args)
    if expr.op.facts.is_commutative and len(args) == 2:
        args = tuple(sorted(args, key=_order))
    return replace(expr, args=args) if args != expr.args else expr


def _order(expr: Expr) -> tuple[bool, int, str]:
    """Ends with the operations alone, so that names and numbers decide nothing."""
    nodes = walk(expr)
    return expr.op is Op.CONST, -len(nodes), " ".join(node.op.value for node in nodes)
