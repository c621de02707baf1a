"""Unification: which statements compute which expressions, and with which constants."""

from __future__ import annotations

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import clamp, source
from tilewright.compiler.select import unify
from tilewright.compiler.select.bindings import Match
from tilewright.compiler.select.unify import Unifier
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op

X, Y = source("x", -128, 127), source("y", -128, 127)


def constant_range(expr: Expr) -> Interval | None:
    return Interval(expr.value, expr.value) if expr.op is Op.CONST else None


def constant_value(expr: Expr) -> int | None:
    return expr.value if expr.op is Op.CONST else None


def matches(mnemonic: str, expr: Expr) -> list[Match]:
    of = machine("base16").format(mnemonic)
    return list(Unifier(of, constant_range, constant_value).matches(expr))


def rescaled(value: Expr, zero: int, scale: int, shift: int) -> Expr:
    product = make(Op.MUL, make(Op.SUB, value, const(zero)), const(scale))
    return make(Op.ROUND_SHIFT, product, const(shift))


def test_binds_constants_to_immediates() -> None:
    expr = clamp(make(Op.ADD, rescaled(X, 4, 50000, 15), const(-3)), -100, 90)
    (match,) = matches("rescale", expr)
    assert match.operands == {"a": X}
    assert match.immediates == {"a_zero": 4, "scale": 50000, "shift": 15, "zero": -3, "low": -100, "high": 90}
    assert match.neutral == 0


def test_refuses_a_constant_that_its_immediate_cannot_hold() -> None:
    assert matches("rescale", clamp(make(Op.ADD, rescaled(X, 4, 1 << 16, 15), const(-3)), -100, 90)) == []


def test_finds_swapped_arguments() -> None:
    total = make(Op.ADD, const(-3), rescaled(X, 4, 50000, 15))
    expr = make(Op.MIN, const(90), make(Op.MAX, const(-100), total))
    (match,) = matches("rescale", expr)
    assert match.immediates["zero"] == -3


def test_reads_an_added_constant_as_a_subtracted_one() -> None:
    product = make(Op.MUL, make(Op.ADD, X, const(6)), const(3))
    expr = clamp(make(Op.ADD, make(Op.ROUND_SHIFT, product, const(1)), const(0)), -128, 127)
    (match,) = matches("rescale", expr)
    assert match.immediates["a_zero"] == -6


def test_lets_missing_operations_do_nothing() -> None:
    (match,) = matches("rescale", X)
    assert match.operands == {"a": X}
    assert match.immediates == {"a_zero": 0, "scale": 1, "shift": 0, "zero": 0, "low": -128, "high": 127}


def test_multiplies_what_it_does_not_need_by_zero() -> None:
    expr = clamp(make(Op.ADD, rescaled(X, 4, 50000, 15), const(-3)), -100, 90)
    found = matches("add", expr)
    assert found[0].operands == {"a": X}
    assert found[0].idle == {"b"}
    assert found[0].immediates["b_scale"] == 0


def test_needs_the_same_rounding() -> None:
    from dataclasses import replace

    from tilewright.isa.language.numeric import Rounding

    rounded = replace(rescaled(X, 4, 50000, 15), rounding=Rounding.UP)
    assert matches("rescale", clamp(make(Op.ADD, rounded, const(-3)), -100, 90)) == []


def test_takes_a_wrap_for_the_value_where_it_fits() -> None:
    bound = 1 << 20
    total = Expr(Op.SUM, Interval(-bound, bound), (make(Op.MUL, X, Y),))
    assert {frozenset(m.operands.items()) for m in matches("mma", total)} == {
        frozenset({"a": X, "w": Y}.items()),
        frozenset({"a": Y, "w": X}.items()),
    }


def test_refuses_a_wrap_that_would_change_the_value() -> None:
    bound = 1 << 31
    total = Expr(Op.SUM, Interval(-bound, bound), (make(Op.MUL, X, Y),))
    assert matches("mma", total) == []


@pytest.mark.parametrize("mnemonic", ["copy", "max_pool", "rescale", "add"])
def test_never_merely_moves_a_computed_value_within_a_memory(mnemonic: str) -> None:
    value = Expr(Op.MIN_OVER, Interval(-128, 127), (X,))
    assert matches(mnemonic, value) == []


def test_gives_up_what_cannot_match_without_trying_every_way_to_bind_the_rest() -> None:
    """Each part of the statement is compared with each part of the expression once: 169 questions about constants.

    Once for each way to bind what is beside it, there were 611.
    """
    asked = 0

    def counted(expr: Expr) -> int | None:
        nonlocal asked
        asked += 1
        return constant_value(expr)

    def counted_range(expr: Expr) -> Interval | None:
        nonlocal asked
        asked += 1
        return constant_range(expr)

    too_large = clamp(make(Op.ADD, rescaled(X, 4, 1 << 16, 15), const(-3)), -100, 90)
    assert not list(Unifier(machine("base16").format("add"), counted_range, counted).matches(too_large))
    assert asked < 250


def test_what_is_known_of_an_expression_keeps_it() -> None:
    """Another expression must not get its `id`."""
    product = make(Op.MUL, make(Op.ADD, X, const(6)), const(3))
    expr = clamp(make(Op.ADD, make(Op.ROUND_SHIFT, product, const(1)), const(0)), -128, 127)
    unifier = Unifier(machine("base16").format("rescale"), constant_range, constant_value)
    assert list(unifier.matches(expr))
    assert unifier._possible
    assert all(id(kept) == known for (_, known), (_, kept) in unifier._possible.items())


def test_what_is_known_of_numbers_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session asks for as many numbers as all of its networks have together."""
    monkeypatch.setattr(unify, "MOST_NUMBERS", 50)
    numbers: unify.Possible = {}
    for scale in range(1, 100):
        expr = clamp(make(Op.ADD, rescaled(X, 4, scale, 15), const(-3)), -100, 90)
        (match,) = Unifier(machine("base16").format("rescale"), constant_range, constant_value, numbers).matches(expr)
        assert match.immediates["scale"] == scale
        assert len(numbers) <= 50
