"""Real factors as multiplier and shift: as near as the width allows, which exact fractions tell."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.multiplier import normalized, with_common_shift
from tilewright.compiler.requantization import NumberFormat
from tilewright.isa.language.numeric import Rounding

NUMBER = NumberFormat(16, 6, 32, Rounding.EVEN)


def test_scales_are_normalized_and_nearest() -> None:
    factors = np.exp(np.random.default_rng(1).uniform(-20, 5, size=2000))
    scales, shifts = normalized(factors, NUMBER, "test")
    assert scales.min() >= 1 << 15 and scales.max() < 1 << 16
    for factor, scale, shift in zip(factors, scales, shifts, strict=True):
        error = abs(Fraction(factor) - Fraction(int(scale), 1 << int(shift)))
        assert error <= Fraction(1, 2) / (1 << int(shift))


@pytest.mark.parametrize(
    ("factor", "scale", "shift"),
    [
        (1.0, 1 << 15, 15),
        (0.5, 1 << 15, 16),
        (0.3, 39322, 17),  # 0.3 · 2**17 = 39321.6
        (1 - 2**-20, 1 << 15, 15),  # rounds up to the next power of two
        (65535.0, 65535, 0),
        (0.0, 0, 0),
        (2.0**-60, 4, 62),  # the shift is at its end
        (2.0**-80, 0, 62),
    ],
)
def test_by_hand(factor: float, scale: int, shift: int) -> None:
    scales, shifts = normalized(np.array([factor]), NUMBER, "test")
    assert (int(scales[0]), int(shifts[0])) == (scale, shift)


def test_a_factor_that_is_too_large_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        normalized(np.array([0.5, 70000.0]), NUMBER, "node 'conv' (conv)")
    assert str(caught.value) == (
        "node 'conv' (conv): the scales give the factor 70000; expected 0 to 65535: the result's scale is far too small"
    )


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_a_factor_that_is_no_number_is_refused(factor: float) -> None:
    message = f"^test: the scales give the factor {factor}; expected scales that are finite$"
    with pytest.raises(CompileError, match=message):
        normalized(np.array([0.5, factor]), NUMBER, "test")
    with pytest.raises(CompileError, match=message):
        with_common_shift(0.5, factor, NUMBER, "test")


def test_two_factors_share_the_shift_of_the_larger() -> None:
    assert with_common_shift(0.5, 0.75, NUMBER, "test") == (32768, 49152, 16)
    assert with_common_shift(4.0, 0.001, NUMBER, "test") == (32768, 8, 13)  # 0.001 · 2**13 = 8.192
