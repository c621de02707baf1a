"""Real factors as integer multipliers and shifts: factor ≈ scale / 2**shift, as precise as the machine allows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, Named
from tilewright.compiler.requantization import NumberFormat

Integers = NDArray[np.int64]


def normalized(factors: NDArray[np.float64], number: NumberFormat, place: str | Named) -> tuple[Integers, Integers]:
    """Scale and shift of each factor; scales are in [2**(bits - 1), 2**bits), or less where the shift is at its end.

    Example with 16 bits: 0.3 → 39322 / 2**17; 0 → 0 / 2**0. Raises CompileError for a factor that is too large,
    negative, or no number.
    """
    in_range = f"0 to {(1 << number.scale_bits) - 1}: the result's scale is far too small"
    if not np.isfinite(factors).all():
        worst = float(factors[~np.isfinite(factors)][0])
        raise CompileError(place, f"the scales give the factor {worst:g}", expected="scales that are finite")
    _, exponents = np.frexp(factors)
    shifts = number.scale_bits - exponents.astype(np.int64)
    shifts -= np.rint(np.ldexp(factors, shifts)) >= 1 << number.scale_bits  # 0.99999 rounds to the next power of two
    shifts = np.where(factors == 0, 0, np.minimum(shifts, number.max_shift))
    if np.any(factors < 0) or np.any(shifts < 0):
        worst = float(factors[np.argmin(shifts)])
        raise CompileError(place, f"the scales give the factor {worst:g}", expected=in_range)
    return np.rint(np.ldexp(factors, shifts)).astype(np.int64), shifts


def with_common_shift(a: float, b: float, number: NumberFormat, place: str | Named) -> tuple[int, int, int]:
    """Scales of two factors and their one shift; the larger factor has a normalised scale."""
    _, shifts = normalized(np.array([np.maximum(a, b)]), number, place)
    shift = int(shifts[0])
    return round(math.ldexp(a, shift)), round(math.ldexp(b, shift)), shift
