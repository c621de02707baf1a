"""Range rules: the interval of an operation's value, from those of its arguments and then its setting."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.isa.language.numeric import WORD_BITS, FloatType, IntegerType, Interval, Rounding, round_shift


def corners(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """The rule of a function that is monotone in each argument, and so extreme at ends of both intervals."""

    def rule(a: Interval, b: Interval) -> Interval:
        values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(values), max(values))

    return rule


def of_sum(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def of_difference(a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


of_product = corners(lambda x, y: x * y)
of_shift_left = corners(lambda x, n: x << n)
of_shift_right = corners(lambda x, n: x >> n)


def of_comparison(a: Interval, b: Interval) -> Interval:
    """A comparison is 0 or 1."""
    return Interval(0, 1)


def of_least(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), min(a.high, b.high))


def of_greatest(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.low, b.low), max(a.high, b.high))


def of_magnitude(a: Interval) -> Interval:
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)))


def of_choice(condition: Interval, yes: Interval, no: Interval) -> Interval:
    return Interval(min(yes.low, no.low), max(yes.high, no.high))


def of_leading_zeros(a: Interval) -> Interval:
    """A negative number has none, and from 0 up there are ever fewer. [0, 255] → [56, 64]"""
    least = 0 if a.low < 0 else WORD_BITS - a.high.bit_length()
    most = 0 if a.high < 0 else WORD_BITS - max(a.low, 0).bit_length()
    return Interval(least, most)


def of_wrap(a: Interval, to: IntegerType) -> Interval:
    return a if to.interval.contains(a) else to.interval


def of_code(x: Interval, n: Interval, to: FloatType) -> Interval:
    """Codes are unsigned, those of negative numbers above the others."""
    return to.interval


def of_steps(code: Interval, of: FloatType) -> Interval:
    return of.values


def of_round_shift(x: Interval, n: Interval, rounding: Rounding) -> Interval:
    return corners(lambda value, count: round_shift(value, count, rounding))(x, n)


def of_dot(a: Interval, w: Interval, products: int) -> Interval:
    product = of_product(a, w)
    return Interval(product.low * products, product.high * products)


def of_sum_over_loops(a: Interval, most_trips: int) -> Interval:
    """The sum of one value up to so many."""
    return Interval(min(a.low, a.low * most_trips), max(a.high, a.high * most_trips))


def of_sum_of_lanes(a: Interval, lanes: int) -> Interval:
    return Interval(a.low * lanes, a.high * lanes)


def of_sum_of_words(*words: Interval) -> Interval:
    return Interval(sum(word.low for word in words), sum(word.high for word in words))


def same(a: Interval) -> Interval:
    return a
