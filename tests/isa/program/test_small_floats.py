"""Floating-point types of few bits against ml_dtypes: every code, and what rounds to it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.isa.program.small_floats import BY_SHORT_NAME, SMALL_FLOATS, SmallFloat, shared_exponents

TYPES = list(SMALL_FLOATS.values())


def finite_codes(element: SmallFloat) -> np.ndarray:
    codes = np.arange(1 << element.bits, dtype=np.uint8).view(element.dtype)
    return codes[np.isfinite(codes)]


@pytest.mark.parametrize("element", TYPES, ids=lambda each: each.short)
def test_every_finite_code_is_an_integer_number_of_steps(element: SmallFloat) -> None:
    codes = finite_codes(element)
    steps = element.steps(codes)
    assert np.array_equal(steps * element.least, codes.astype(np.float64))
    assert steps.max() == element.greatest_steps == -steps.min()
    assert np.array_equal(element.values(steps).astype(np.float32), codes.astype(np.float32))
    assert np.min(steps[steps > 0]) == 1


@pytest.mark.parametrize("element", TYPES, ids=lambda each: each.short)
def test_ranks_count_the_numbers_of_a_type_from_zero(element: SmallFloat) -> None:
    numbers = np.unique(element.steps(finite_codes(element)))
    assert np.array_equal(element.ranks(numbers), np.arange(len(numbers)) - len(numbers) // 2)


@pytest.mark.parametrize("element", TYPES, ids=lambda each: each.short)
def test_rounds_as_ml_dtypes_does_ties_to_even_codes(element: SmallFloat) -> None:
    values = np.unique(finite_codes(element).astype(np.float32))
    middles = (values[1:] + values[:-1]) / 2
    above, below = (np.nextafter(middles, np.float32(end)) for end in (np.inf, -np.inf))
    real = np.concatenate([values, middles, above, below])  # of float32, since ml_dtypes rounds others to it first
    assert np.array_equal(element.nearest(real) * element.least, real.astype(element.dtype).astype(np.float64))


@pytest.mark.parametrize("element", TYPES, ids=lambda each: each.short)
def test_saturates_beyond_its_ends(element: SmallFloat) -> None:
    largest = element.greatest_steps
    assert element.nearest(np.array([1e30, np.inf, -1e30, -np.inf])).tolist() == [largest, largest, -largest, -largest]


@pytest.mark.parametrize(("element", "held", "other"), [("e2m1", 12, 5), ("e4m3", 18, 17), ("e4m3", 229376, 245760)])
def test_knows_which_integers_it_holds(element: str, held: int, other: int) -> None:
    """e2m1: 6 / 0.5, and 2.5 / 0.5; e4m3: sixteen and more have steps of two, and 448 / 2⁻⁹ is the last."""
    assert BY_SHORT_NAME[element].holds(np.array([held, -held, 0]))
    assert not BY_SHORT_NAME[element].holds(np.array([0, other]))


def test_shared_exponents_follow_the_rule_of_the_mx_formats() -> None:
    """floor(log2(amax)), less 2 for e2m1, whose largest is 4 · 1.5, and 8 for e4m3, whose largest is 256 · 1.75."""
    largest = np.array([1.0, 1.99, 6.0, 0.124, 0.0, 1e-45])
    assert shared_exponents(largest, BY_SHORT_NAME["e2m1"]).tolist() == [-2, -2, 0, -6, 0, -127]
    assert shared_exponents(largest, BY_SHORT_NAME["e4m3"]).tolist() == [-8, -8, -6, -12, 0, -127]
