"""The oracle of floating types: codes and numbers one at a time, without the rules that the fast simulator has."""

from __future__ import annotations

from fractions import Fraction

from tilewright.isa.language.numeric import FloatType


def code_steps(code: int, of: FloatType) -> int:
    """The number of a code, in steps: its mantissa times a power of two; 0 if it is none."""
    sign, magnitude = divmod(code, 1 << of.sign_bit)
    if magnitude > of.greatest:
        return 0
    exponent, mantissa = divmod(magnitude, 1 << of.mantissa_bits)
    number = mantissa if exponent == 0 else (mantissa + (1 << of.mantissa_bits)) * 2 ** (exponent - 1)
    return -number if sign else number


def nearest_code(number: Fraction, to: FloatType) -> int:
    """The code whose number is nearest, the even one of two; by looking at all of them."""
    magnitude = min(range(to.greatest + 1), key=lambda code: (abs(code_steps(code, to) - abs(number)), code % 2))
    return magnitude + (1 << to.sign_bit) if number < 0 and magnitude > 0 else magnitude
