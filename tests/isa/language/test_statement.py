"""The statement language: ranges hold for sampled values, and what is refused."""

from __future__ import annotations

import random

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import IntegerType, Rounding, parse_integer_type
from tilewright.isa.language.statement import WORDS, parse_statement

INT8, INT32 = IntegerType(8, True), IntegerType(32, True)


def scope(destination: str = "int32", reduce_trips: int = 1) -> Scope:
    return Scope(
        sources={
            "a": {"": INT8},
            "b": {"": INT8},
            "p": {"bias": INT32, "scale": IntegerType(16, False), "shift": IntegerType(6, False)},
            "t": {"": IntegerType(12, False)},
            "v": {"": INT8},
        },
        immediates={"zero": INT8, "count": IntegerType(3, False)},
        destination="y",
        destination_type=parse_integer_type(destination),
        reduce_trips=reduce_trips,
        dot_length=16,
        rounding=Rounding.EVEN,
        blocks={"t": 256, "v": 3},
        lanes=8,
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("y = a + b", -256, 254),
        ("y = a - b", -255, 255),
        ("y = a * b", -16256, 16384),
        ("y = -a", -127, 128),
        ("y = a << count", -128 << 7, 127 << 7),
        ("y = a >> count", -128, 127),
        ("y = abs(a)", 0, 128),
        ("y = clz(a)", 0, 64),
        ("y = clz(abs(a))", 56, 64),  # of 128, 1000 0000, and of 0
        ("y = clz(max(a, 3))", 57, 62),  # of 127 and of 3
        ("y = clz(min(a, -1))", 0, 0),
        ("y = min(a, 5)", -128, 5),
        ("y = max(a, 5)", 5, 127),
        ("y = a < b", 0, 1),
        ("y = a >= b", 0, 1),
        ("y = where(a == b, a, 300)", -128, 300),
        ("y = sat(a * b, int8)", -128, 127),
        ("y = wrap(a * b, uint4)", 0, 15),
        ("y = clamp(a * b, -3, zero)", -128, 127),  # min(max(x, -3), zero): zero may be -128
        ("y = cast(a, int8)", -128, 127),
        ("y = round_shift(a * b, 7)", -127, 128),
        ("y = dot(a, b)", -16256 * 16, 16384 * 16),
        ("y = dot(a, transpose(b))", -16256 * 16, 16384 * 16),
        ("y = lut(t, a) + 1", 1, 4096),
        ("y = lanes_sum(a)", -128 * 8, 127 * 8),
        ("y = lanes_sum(abs(a))", 0, 128 * 8),
        ("y = lanes_max(a) - 1", -129, 126),
    ],
)
def test_infers_the_range(text: str, low: int, high: int) -> None:
    inferred = parse_statement(text, scope()).expr.range

    assert (inferred.low, inferred.high) == (low, high)


def test_a_sum_ranges_over_all_trips() -> None:
    inferred = parse_statement("y = sum(a)", scope(reduce_trips=64)).expr.range

    assert (inferred.low, inferred.high) == (-128 * 64, 127 * 64)


def test_every_range_is_reached_or_wide_enough() -> None:
    """Sampled with Python's own arithmetic: no value leaves the inferred range."""
    rng = random.Random(3)
    inferred = parse_statement("y = (a - zero) * b + (a << count)", scope()).expr.range
    corners = [-128, -1, 0, 1, 127]
    for _ in range(2000):
        a, b, zero = (rng.choice(corners) for _ in range(3))
        assert inferred.low <= (a - zero) * b + (a << rng.randrange(8)) <= inferred.high


@pytest.mark.parametrize(
    "text",
    [
        "y = clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, -128, 127)",
        "y = where(a < b, abs(a), wrap(b << count, int8))",
        "y = max_over(a) - min(b, -3)",
        "y = cast(t << (clz(t) - 52), int32)",
        "y = lut(t, wrap(a + b, uint8)) + 2",
        "y = lanes_sum(max_over(a)) - lanes_max(b)",
        "y = wrap(sum(dot(a, transpose(b))), int32)",
    ],
)
def test_prints_and_parses_to_the_same_tree(text: str) -> None:
    first = parse_statement(text, scope(reduce_trips=4))

    again = parse_statement(f"y = {first.expr}", scope(reduce_trips=4))

    assert again.expr == first.expr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y + 1", "'y + 1' is not a statement: expected `y = expression`"),
        ("z = a", "the statement assigns 'z'; expected the destination 'y'"),
        ("y = a / b", "`a / b` is not part of the statement language (operators: + - * << >> < <= == !=)"),
        ("y = [a]", "`[a]` is not part of the statement language (operators: + - * << >> < <= == !=)"),
        ("y = c", "unknown name 'c'; the statement can use: a, b, p, t, v, zero, count"),
        ("y = p.bais", "'p.bais' is not an element (did you mean 'p.bias'?); expected p.bias or p.scale or p.shift"),
        ("y = p", "'p' is not an element; expected p.bias or p.scale or p.shift"),
        ("y = clmap(a, 0, 1)", "unknown word 'clmap' (did you mean 'clamp'?); the language has: "
         f"{', '.join(WORDS)}"),
        ("y = min(a)", "min takes 2 arguments, not 1"),
        ("y = a << b", "<<: the shift count b is in [-128, 127]; expected 0 to 63"),
        ("y = sat(a, int99)", "unknown type 'int99': expected int2 … int63, uint1 … uint63, e4m3 or e2m1"),
        ("y = True", "True is not an integer"),
        ("y = 1.5", "`1.5` is not part of the statement language (operators: + - * << >> < <= == !=)"),
        ("y = sum(a) + sum(b)",
         "a statement has at most one reduction over the reduce loops (sum, max_over or min_over)"),
        ("y = lut(t, a + b)", "lut: `a + b` is in [-256, 254], which is 511 values, and t is a block of 256 words; "
         "expected a word for each value"),
        ("y = lut(a, b)", "lut: `b` is in [-128, 127], which is 256 values, and a is a block of 1 words; "
         "expected a word for each value"),
        ("y = lut(zero, a)", "lut: expected a source that is a block of words (a, b, p, t, v), not `zero`"),
        ("y = lut(p, a)", "lut: p is a structure; a table's element is one integer"),
        ("y = transpose(a)", "`transpose(a)` stands on its own; transpose is for the second argument of dot: "
         "dot(a, transpose(w))"),
        ("y = dot(transpose(a), b)", "`transpose(a)` stands on its own; transpose is for the second argument of dot: "
         "dot(a, transpose(w))"),
        ("y = dot(a, transpose(transpose(b)))", "`transpose(b)` stands on its own; transpose is for the second "
         "argument of dot: dot(a, transpose(w))"),
        ("y = dot(a, transpose(b) + 1)", "`transpose(b)` stands on its own; transpose is for the second argument of "
         "dot: dot(a, transpose(w))"),
        ("y = dot(a, transpose(b + 1))", "transpose: expected a source that is a block of words, not `b + 1`"),
        ("y = dot(a, transpose(zero))", "transpose: expected a source that is a block of words, not `zero`"),
        ("y = dot(a, transpose(p.bias))", "transpose: expected a source that is a block of words, not `p.bias`"),
        ("y = dot(a, transpose())", "transpose takes 1 arguments, not 0"),
        ("y = words_sum(a)", "words_sum: the sources in `a` have blocks of other sizes, or none (words: a of 1); "
         "expected blocks of one size, such as `3 * act`"),
        ("y = words_sum(v + t)", "words_sum: the sources in `v + t` have blocks of other sizes, or none (words: "
         "v of 3, t of 256); expected blocks of one size, such as `3 * act`"),
        ("y = words_sum(lanes_sum(v))", "words_sum: `lanes_sum(v)` stands inside; expected what each lane computes "
         "of one word"),
        ("y = lut(t, a) + t", "t is a table, and `t` stands outside of lut(t, …)"),
        ("y = cast(a * b, int8)",
         "cast: the value is in [-16256, 16384] and does not fit int8; say sat(…, int8) or wrap(…, int8)"),
    ],
)  # fmt: skip
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(IsaError) as caught:
        parse_statement(text, scope())

    assert str(caught.value) == message


def test_refuses_a_value_beyond_63_bits() -> None:
    with pytest.raises(IsaError, match="needs 64 bits; expected at most 63"):
        parse_statement("y = p.bias * p.bias", scope())  # (-2**31)**2 = 2**62: 63 bits and a sign


def test_refuses_a_bomb_of_nesting_and_of_digits() -> None:
    with pytest.raises(IsaError):
        parse_statement("y = " + "(" * 500 + "a" + ")" * 500, scope())
    with pytest.raises(IsaError, match="needs more than 63 bits"):
        parse_statement("y = " + "9" * 60, scope())


def test_wrap_keeps_a_range_that_fits() -> None:
    statement = parse_statement("y = wrap(a, int32)", scope())

    assert statement.expr.range == INT8.interval
    assert statement.text == "y = wrap(a, int32)"
