"""The expressions of nests, in the form in which machine files write them, so that trees unify node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.compiler.arithmetic import NumberFormat
from tilewright.isa.language.expressions import Expr, Scope, const, make
from tilewright.isa.language.expressions import number as number_of
from tilewright.isa.language.numeric import FloatType, IntegerType, Interval, Rounding
from tilewright.isa.language.operations import Op


@dataclass(frozen=True, slots=True)
class Target:
    """The quantised result of an expression: its zero point, and the limits that it is clamped to."""

    zero: int
    low: int
    high: int
    floats: FloatType | None = None  # of what it is the nearest number, in steps; it has no zero point then


def source(name: str, values: Interval) -> Expr:
    """A read of the nest, with the values that it can take."""
    return Expr(Op.SOURCE, values, name=name)


def sum_of_products(a: Expr, b: Expr, bound: Interval, numbers: Sequence[int] = ()) -> Expr:
    """`sum(a * b + a * number + …)`, whose bound the caller knows from the weights."""
    terms = make(Op.MUL, a, b)
    for number in numbers:
        terms = make(Op.ADD, terms, make(Op.MUL, a, const(number)))
    return Expr(Op.SUM, bound, (terms,))


def requantized(total: Expr, bias: Expr, scale: Expr, shift: Expr, target: Target, number: NumberFormat) -> Expr:
    """`clamp(round_shift((total + bias) * scale, shift) + zero, low, high)`, or with `nearest(…, shift, type)`."""
    return _limited(make(Op.MUL, make(Op.ADD, total, bias), scale), shift, target, number)


def rescaled(a: Expr, a_zero: int, scale: int, shift: int, target: Target, number: NumberFormat) -> Expr:
    """`clamp(round_shift((a - a_zero) * scale, shift) + zero, low, high)`"""
    return _limited(make(Op.MUL, _less(a, a_zero, target), const(scale)), const(shift), target, number)


def multiplied(
    a: Expr, a_zero: int, b: Expr, b_zero: int, scale: int, shift: int, target: Target, number: NumberFormat
) -> Expr:
    """`clamp(round_shift((a - a_zero) * (b - b_zero) * scale, shift) + zero, low, high)`"""
    product = make(Op.MUL, _less(a, a_zero, target), _less(b, b_zero, target))
    return _limited(make(Op.MUL, product, const(scale)), const(shift), target, number)


def added(
    a: Expr,
    a_zero: int,
    a_scale: int,
    b: Expr,
    b_zero: int,
    b_scale: int,
    shift: int,
    target: Target,
    number: NumberFormat,
) -> Expr:
    """`clamp(round_shift((a - a_zero) * a_scale + (b - b_zero) * b_scale, shift) + zero, low, high)`"""
    scaled = (
        make(Op.MUL, _less(of, zero, target), const(by))
        for of, zero, by in ((a, a_zero, a_scale), (b, b_zero, b_scale))
    )
    total = make(Op.ADD, *scaled)
    return _limited(total, const(shift), target, number)


def _less(a: Expr, zero: int, target: Target) -> Expr:
    """A value less its zero point, which floats have not."""
    return a if target.floats is not None else make(Op.SUB, a, const(zero))


def _limited(value: Expr, shift: Expr, target: Target, number: NumberFormat) -> Expr:
    if target.floats is not None:
        nearest = make(Op.NEAREST, value, shift, type=target.floats)
        return clamp(number_of(nearest, target.floats), target.low, target.high)
    rounded = make(Op.ROUND_SHIFT, value, shift, scope=scope_of_rounding(number.rounding))
    return clamp(make(Op.ADD, rounded, const(target.zero)), target.low, target.high)


def shifted(value: Expr, shift: int, number: NumberFormat) -> Expr:
    """`round_shift(value, shift)`"""
    return make(Op.ROUND_SHIFT, value, const(shift), scope=scope_of_rounding(number.rounding))


def clamp(value: Expr, low: int, high: int) -> Expr:
    return make(Op.MIN, make(Op.MAX, value, const(low)), const(high))


def across_lanes(op: Op, reduced: Expr) -> Expr:
    """A reduction over channels that goes on across lanes; a nest has one element in each of its iterations."""
    return Expr(op, reduced.range, (reduced,), value=1)


def with_node(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with another node in place of one of its own."""
    if expr is old:
        return new
    return replace(expr, args=tuple(with_node(arg, old, new) for arg in expr.args))


def scope_of_rounding(rounding: Rounding) -> Scope:
    """A scope that has nothing but a rounding."""
    return Scope({}, {}, "", IntegerType(2, True), 1, 1, rounding)
