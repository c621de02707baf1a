"""Where an instruction's statement and an expression differ: the smallest part of the statement that does not unify."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.nest.space import products_of
from tilewright.compiler.select.unify import Unifier, equal_arguments
from tilewright.isa.language.expressions import Expr, const, walk
from tilewright.isa.language.operations import OVER_WORDS, REDUCTIONS, Op, combining

LONGEST = 60
"""Characters of an expression in a sentence."""


@dataclass(frozen=True, slots=True)
class StatementDifference:
    """Why a statement is not an expression, in the statement's words; `alike` counts its nodes that do unify."""

    alike: int
    text: str


def shown(expr: Expr) -> str:
    """An expression, short enough for a sentence."""
    text = str(expr)
    return f"`{text}`" if len(text) <= LONGEST else f"`{text[: LONGEST - 1]}…`"


def difference(unifier: Unifier, pattern: Expr, expr: Expr) -> StatementDifference | None:
    """The first part of a statement that cannot be what it would stand for, of the reading that goes furthest.

    Where both have the same operation, that is the reading, even if the statement could stand for the expression in a
    roundabout way, with operations that do nothing. None where each part by itself can be what it stands for.
    """
    is_possible = unifier.is_possible(pattern, expr)
    if pattern.op in (Op.SOURCE, Op.IMMEDIATE, Op.CONST):
        return None if is_possible else StatementDifference(0, _of_leaf(unifier, pattern, expr))
    readings = list(_readings(pattern, expr))
    if not readings and is_possible:
        return None
    found = [_of_arguments(unifier, arguments) for arguments in readings or _neutral(unifier, pattern, expr)]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    return max(known, key=lambda each: each.alike, default=StatementDifference(0, _of_operation(pattern, expr)))


def _of_arguments(unifier: Unifier, arguments: list[tuple[Expr, Expr]]) -> StatementDifference | None:
    """The first argument that differs."""
    found = [difference(unifier, part, other) for part, other in arguments]
    pairs = zip(arguments, found, strict=True)
    own = 1 + sum(min(map(len, map(walk, pair))) if of is None else of.alike for pair, of in pairs)
    return next((StatementDifference(own, of.text) for of in found if of is not None), None)


def _readings(pattern: Expr, expr: Expr) -> Iterator[list[tuple[Expr, Expr]]]:
    """The parts of a statement with what each would stand for, in every way in which it is the same operation."""
    inner = pattern.args[0]
    match pattern.op:
        case Op.DOT:
            products = products_of(expr)
            for args in (products.main.args, products.main.args[::-1]) if products is not None else ():
                yield list(zip(pattern.args, args, strict=True))
        case Op.TRANSPOSE:
            yield [(inner, expr)]
        case Op.WRAP if expr.op is Op.WRAP and expr.type == pattern.type:
            yield [(inner, expr.args[0])]
        case Op.WRAP if pattern.type is not None and pattern.type.interval.contains(expr.range):
            yield [(inner, expr)]
        case Op.LUT if expr.op is Op.LUT:
            yield [(inner, expr.args[0])]
        case op if op in REDUCTIONS | OVER_WORDS:
            if expr.op in REDUCTIONS and combining(expr.op) is combining(op):
                yield [(inner, expr if inner.op in OVER_WORDS else expr.args[0])]
            elif inner.op is not Op.DOT and op in REDUCTIONS:
                yield [(inner, expr)]
        case op if op not in (Op.WRAP, Op.LUT):
            for equal in equal_arguments(pattern, expr):
                yield list(zip(pattern.args, equal, strict=True))


def _neutral(unifier: Unifier, pattern: Expr, expr: Expr) -> Iterator[list[tuple[Expr, Expr]]]:
    """An operation that leaves one argument as it is, if the other can be what does that."""
    if pattern.op.facts.neutral is not None:
        neutral = const(pattern.op.facts.neutral(expr.range))
        left, right = pattern.args
        for kept, dropped in ((left, right), (right, left)) if pattern.op.facts.is_commutative else ((left, right),):
            if (dropped.op is not Op.SOURCE or dropped.field) and unifier.is_possible(dropped, neutral):
                yield [(kept, expr)]


def _of_leaf(unifier: Unifier, pattern: Expr, expr: Expr) -> str:
    name = f"`{pattern.name}.{pattern.field}`" if pattern.field else f"`{pattern.name}`"
    values = unifier.constant_range(expr)
    held = unifier.held(pattern)
    match pattern.op:
        case Op.CONST:
            return f"its number {pattern.value} stands where the layer has {shown(expr)}"
        case Op.IMMEDIATE if unifier.constant_value(expr) is None:
            return f"its immediate {name} is one number, and the layer has {shown(expr)} there"
        case Op.SOURCE if pattern.field and values is None:
            return f"its field {name} is a constant of each channel, and the layer computes {shown(expr)} there"
    return f"its {name} holds {held}, and the layer has {shown(expr)} there, {values or expr.range}"


def _of_operation(pattern: Expr, expr: Expr) -> str:
    if pattern.op is Op.LUT and expr.op is Op.LUT:
        return f"its table `{pattern.name}` has other entries, or another first one, than the layer's {shown(expr)}"
    if pattern.op is Op.WRAP:
        return f"its {shown(pattern)} wraps to {pattern.type}, and the layer has {shown(expr)} there, {expr.range}"
    return f"its {shown(pattern)} stands where the layer has {shown(expr)}"
