"""A statement as narrow hardware computes it: products of narrow factors, round shifts that saturate early.

`narrowed` gives an expression with the same value for all inputs, which `rtl/proof/narrowing.py` proves. In it a
`round_shift` may have a type: its value is then the nearest one of that type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tilewright.isa.language.expressions import Expr, const, walk
from tilewright.isa.language.facts import Kind
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, IntegerType, Interval
from tilewright.isa.language.operations import Op

EVERYTHING = Interval(-(1 << MAX_INTEGER_BITS), 1 << MAX_INTEGER_BITS)
"""No value of a statement is outside."""


def narrowed(expr: Expr, factor_bits: int) -> dict[Expr, Expr]:
    """Each node of an expression, and what stands for it; the expression itself and what stands for it are equal.

    Round shifts saturate where nothing else makes a difference. A product with a factor of more than `factor_bits`
    bits is the sum of the products with both halves of the wider. The product of a vector and a weight tile is that of
    one element and one word: of a row of the tile, over which `sum` sums as over the reduce loops.
    """
    demand = demands(expr)
    changed: dict[Expr, Expr] = {}
    for node in dict.fromkeys(walk(expr)):
        new = _ranged(node, tuple(changed[arg] for arg in node.args))
        match new.op:
            case Op.ROUND_SHIFT:
                new = _saturating(new, demand[node])
            case Op.MUL:
                new = _of_halves(new, factor_bits)
            case Op.DOT if new.args[1].op is Op.SOURCE:
                new = _of_halves(_node(Op.MUL, *new.args), factor_bits)
        changed[node] = new
    return changed


def demands(expr: Expr) -> dict[Expr, Interval]:
    """Of each node an interval: if the node's value is replaced with the nearest in it, the statement's stays the same.

    Example: of `min(max(round_shift(a, n) + zero, -128), 127)` with `zero` from -128 to 127, the sum's is [-128, 127]
    and the round shift's [-255, 255]: from 255 on, the sum is at least 127, whatever `zero`, and the statement 127.
    """
    found = {expr: EVERYTHING}
    for node in reversed(dict.fromkeys(walk(expr))):
        rule = DEMANDS.get(node.op)
        wanted = rule(found[node], *(arg.range for arg in node.args)) if rule else (EVERYTHING,) * len(node.args)
        if node.op is Op.WRAP and node.range == node.args[0].range:
            wanted = (found[node],)  # it changes nothing
        for arg, interval in zip(node.args, wanted, strict=True):
            found[arg] = _hull(found[arg], interval) if arg in found else interval
    return found


def _of_sum(wanted: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """From high - b.low on, `a` gives a sum of at least high, whatever `b`. Only the wider of the two is replaced."""
    if a.bits < b.bits:
        return tuple(reversed(_of_sum(wanted, b, a)))  # type: ignore[return-value]
    return Interval(wanted.low - b.high, wanted.high - b.low), EVERYTHING


def _of_difference(wanted: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    if a.bits < b.bits:
        return EVERYTHING, Interval(a.low - wanted.high, a.high - wanted.low)
    return Interval(wanted.low + b.low, wanted.high + b.high), EVERYTHING


def _of_least(wanted: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """What is above all values of the other argument is never the smaller."""
    if a.bits < b.bits:
        return tuple(reversed(_of_least(wanted, b, a)))  # type: ignore[return-value]
    return Interval(wanted.low, max(wanted.low, min(wanted.high, b.high))), wanted


def _of_greatest(wanted: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    if a.bits < b.bits:
        return tuple(reversed(_of_greatest(wanted, b, a)))  # type: ignore[return-value]
    return Interval(min(wanted.high, max(wanted.low, b.low)), wanted.high), wanted


DEMANDS: Mapping[Op, Callable[..., tuple[Interval, ...]]] = {
    Op.ADD: _of_sum,
    Op.SUB: _of_difference,
    Op.MIN: _of_least,
    Op.MAX: _of_greatest,
    Op.WHERE: lambda wanted, condition, yes, no: (EVERYTHING, wanted, wanted),
}
"""From the demand of a node and the ranges of its arguments, the arguments' demands. Other nodes want every value."""


def _hull(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), max(a.high, b.high))


def _ranged(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """A node with other arguments, none of which has values that the old one had not."""
    if args == node.args:
        return node
    facts = node.op.facts
    if node.op is Op.LUT:  # its table begins at the least index
        return dataclasses.replace(node, args=(dataclasses.replace(args[0], range=node.args[0].range),))
    interval = node.range
    if facts.kind is Kind.LANE:
        assert facts.range is not None, node.op
        settings = () if node.setting is None else (node.setting,)
        interval = facts.range(*(arg.range for arg in args), *settings)
    return dataclasses.replace(node, args=args, range=interval)


def _saturating(node: Expr, wanted: Interval) -> Expr:
    """A round shift that gives the nearest value of the least type that holds the interval, if that is narrower."""
    of = IntegerType(Interval(min(wanted.low, -1), max(wanted.high, 0)).bits, is_signed=True)
    if of.bits >= node.range.bits or of.interval.contains(node.range):
        return node
    low, high = (max(of.interval.low, min(of.interval.high, end)) for end in (node.range.low, node.range.high))
    return dataclasses.replace(node, type=of, range=Interval(low, high))


def _of_halves(product: Expr, factor_bits: int) -> Expr:
    """low · y + high · y · 2**middle, for a product x · y whose x = low + high · 2**middle is wide."""
    x, y = product.args if product.args[0].range.bits >= product.args[1].range.bits else reversed(product.args)
    if x.range.bits <= factor_bits:
        return product
    middle = x.range.bits // 2
    to = IntegerType(middle, is_signed=False)
    low = Expr(Op.WRAP, to.interval, (x,), type=to)
    high = _node(Op.SHIFT_RIGHT, x, const(middle))
    return _node(Op.ADD, _node(Op.MUL, low, y), _node(Op.SHIFT_LEFT, _node(Op.MUL, high, y), const(middle)))


def _node(op: Op, a: Expr, b: Expr) -> Expr:
    assert op.facts.range is not None, op
    return Expr(op, op.facts.range(a.range, b.range), (a, b))
