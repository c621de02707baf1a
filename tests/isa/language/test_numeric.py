"""Rounding and wrapping against exact fractions and hand tables."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, parse_integer_type, round_shift, wrap


def exact(x: int, n: int, rounding: Rounding) -> int:
    """Rounding from its definition, with fractions: the nearest integer, ties as the mode says."""
    value = Fraction(x, 2**n)
    below = value.numerator // value.denominator
    rest = value - below
    if rest != Fraction(1, 2):
        return below + (rest > Fraction(1, 2))
    match rounding:
        case Rounding.EVEN:
            return below + below % 2
        case Rounding.UP:
            return below + 1
        case Rounding.AWAY:
            return below + (value > 0)


@pytest.mark.parametrize("rounding", Rounding)
def test_round_shift_is_the_nearest_integer(rounding: Rounding) -> None:
    for x in range(-70, 70):
        for n in range(8):
            assert round_shift(x, n, rounding) == exact(x, n, rounding), (x, n)


def test_round_shift_ties_by_hand() -> None:
    halves = [-7, -5, -3, -1, 1, 3, 5, 7]  # -3.5 -2.5 -1.5 -0.5 0.5 1.5 2.5 3.5

    assert [round_shift(x, 1, Rounding.EVEN) for x in halves] == [-4, -2, -2, 0, 0, 2, 2, 4]
    assert [round_shift(x, 1, Rounding.UP) for x in halves] == [-3, -2, -1, 0, 1, 2, 3, 4]
    assert [round_shift(x, 1, Rounding.AWAY) for x in halves] == [-4, -3, -2, -1, 1, 2, 3, 4]


@pytest.mark.parametrize("rounding", Rounding)
def test_round_shift_of_arrays_is_that_of_integers(rounding: Rounding) -> None:
    rng = random.Random(7)
    x = [rng.randrange(-(2**50), 2**50) for _ in range(500)]
    n = [rng.randrange(0, 60) for _ in x]

    result = round_shift(np.array(x, np.int64), np.array(n, np.int64), rounding)

    assert result.tolist() == [exact(a, b, rounding) for a, b in zip(x, n, strict=True)]


def test_wrap_by_hand() -> None:
    assert [wrap(x, IntegerType(8, True)) for x in (127, 128, 255, 256, -129)] == [127, -128, -1, 0, 127]
    assert [wrap(x, IntegerType(8, False)) for x in (255, 256, -1)] == [255, 0, 255]


def test_interval_bits_by_hand() -> None:
    table = {(0, 0): 1, (0, 1): 1, (0, 255): 8, (0, 256): 9, (-1, 0): 1, (-128, 127): 8, (-129, 0): 9, (-1, 128): 9}

    assert {key: Interval(*key).bits for key in table} == table


@pytest.mark.parametrize("text", ["int1", "int64", "int", "float32", "uint0", "Int8", "int08"])
def test_refuses_what_is_not_a_type(text: str) -> None:
    with pytest.raises(IsaError, match="unknown type"):
        parse_integer_type(text)
