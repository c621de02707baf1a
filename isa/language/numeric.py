"""The number rules that every executor shares: integer types and rounding. This is their only definition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError


class Rounding(Enum):
    """What `round_shift` does with a value exactly halfway between two integers."""

    EVEN = "even"  # to the even neighbour, as ONNX's QuantizeLinear and IEEE 754 do
    UP = "up"  # towards +infinity
    AWAY = "away"  # away from zero


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from `low` to `high`, both included; also says how many bits hold them."""

    low: int
    high: int

    @property
    def is_signed(self) -> bool:
        return self.low < 0

    @property
    def bits(self) -> int:
        """The fewest bits that hold every value: two's complement if any is negative, at least 1."""
        if self.low >= 0:
            return max(1, self.high.bit_length())
        return max((~self.low).bit_length(), self.high.bit_length() if self.high >= 0 else 0) + 1

    @property
    def span(self) -> int:
        """How far the greatest value is from the least."""
        return self.high - self.low

    def contains(self, other: Interval) -> bool:
        return self.low <= other.low and other.high <= self.high

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


@dataclass(frozen=True, slots=True)
class IntegerType:
    """`int16`, `uint6`, …: a stored integer of a stated width."""

    bits: int
    is_signed: bool

    @property
    def interval(self) -> Interval:
        return _interval(self.bits, self.is_signed)

    @property
    def values(self) -> Interval:
        """What an element counts as in a product: itself."""
        return self.interval

    @property
    def count(self) -> int:
        """How many values it has, and so the entries of a table of them."""
        return 1 << self.bits

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's smallest integer type that holds the type."""
        bits = next(bits for bits in (8, 16, 32, 64) if bits >= self.bits)
        return np.dtype(f"{'int' if self.is_signed else 'uint'}{bits}")

    def __str__(self) -> str:
        return f"{'int' if self.is_signed else 'uint'}{self.bits}"


@dataclass(frozen=True, slots=True)
class FloatType(IntegerType):
    """`e4m3`, `e2m1`: floating numbers. What is stored is a code: sign, exponent and mantissa as an unsigned integer.

    A code stands for an integer, its number in steps of the least number above zero, 2 ** `step_exponent`: e2m1 has 0,
    1, 2, 3, 4, 6, 8 and 12 halves and the same below zero. So sums of products are exact. Codes above `greatest`, which
    are NaN, stand for zero. The numbers are those of the OCP's 8-bit and microscaling formats (5.3.1 and 5.3.3 there).
    """

    name: str
    mantissa_bits: int
    greatest: int  # the greatest code of a number, without its sign
    step_exponent: int

    @property
    def sign_bit(self) -> int:
        """The code's bit that says whether the number is negative; below it is the code of its magnitude."""
        return self.bits - 1

    @property
    def values(self) -> Interval:
        most = int(_code_steps(self)[self.greatest])
        return Interval(-most, most)

    @property
    def most_doublings(self) -> int:
        """How often a step is doubled between numbers that are next to each other, at most."""
        return (self.greatest >> self.mantissa_bits) - 1

    def __str__(self) -> str:
        return self.name


FLOAT_TYPES: Mapping[str, FloatType] = MappingProxyType(
    {
        of.name: of
        for of in (
            FloatType(8, False, "e4m3", mantissa_bits=3, greatest=0x7E, step_exponent=-9),
            FloatType(4, False, "e2m1", mantissa_bits=1, greatest=0x7, step_exponent=-1),
        )
    }
)
"""By name. ONNX calls them FLOAT8E4M3FN and FLOAT4E2M1."""

E5M2 = FloatType(8, False, "e5m2", mantissa_bits=2, greatest=0x7B, step_exponent=-16)
"""A type of files that no machine has: a product of two is no value of a statement."""


def type_of(values: Interval) -> IntegerType:
    """The narrowest type that holds all values of an interval."""
    return IntegerType(values.bits, values.is_signed)


def common_type(types: Sequence[IntegerType]) -> IntegerType | None:
    """The narrowest type with an element for what each element of these types counts as in products, or None.

    The least numbers of a floating type are their codes, as are those of a narrower one that has no others.
    """
    floats = [each for each in types if isinstance(each, FloatType)]
    if not floats:
        return type_of(Interval(min(each.interval.low for each in types), max(each.interval.high for each in types)))
    widest = max(floats, key=lambda each: each.values.high)
    fit = all(each == widest or each.values.high < 2 << widest.mantissa_bits for each in floats)
    return widest if fit and len(floats) == len(types) else None


@cache  # of few types, and asked for at every node of every expression
def _interval(bits: int, is_signed: bool) -> Interval:
    if is_signed:
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Interval(0, (1 << bits) - 1)


MAX_INTEGER_BITS = 63
"""Every value of a statement fits a signed 64-bit word, so array code needs no wider type."""

WORD_BITS = 64
"""Width of the two's complement word in which `clz` counts zeros: one that holds every value of a statement."""


NO_TYPES: Mapping[str, IntegerType] = MappingProxyType({})


def parse_integer_type(text: str) -> IntegerType:
    """Read `int16` or `uint6`; raises IsaError for anything else."""
    found = _integer_type(text)
    if found is None:
        raise IsaError(
            f"unknown type {text!r}: expected int2 … int{MAX_INTEGER_BITS} or uint1 … uint{MAX_INTEGER_BITS}"
        )
    return found


def parse_type(text: str, named: Mapping[str, IntegerType] = NO_TYPES) -> IntegerType:
    """As `parse_integer_type`, and the floating types and the names of types."""
    found = named.get(text) or FLOAT_TYPES.get(text) or _integer_type(text)
    if found is None and text == E5M2.name:
        most = E5M2.values.high**2
        raise IsaError(
            f"machines have no {text}: a product of two takes {Interval(-most, most).bits} bits, and values of "
            f"statements have {MAX_INTEGER_BITS}; expected {' or '.join(FLOAT_TYPES)}. Take e4m3: times a power of "
            "two it has every number of e5m2 from its greatest down to 1 / 57,344 of that"
        )
    if found is None:
        names = f", or a memory of such: {', '.join(named)}" if named else ""
        raise IsaError(
            f"unknown type {text!r}: expected int2 … int{MAX_INTEGER_BITS}, uint1 … uint{MAX_INTEGER_BITS}, "
            f"{' or '.join(FLOAT_TYPES)}{names}"
        )
    return found


def _integer_type(text: str) -> IntegerType | None:
    match = re.fullmatch(r"(u?)int([1-9][0-9]?)", text)
    if match is None or int(match[2]) > MAX_INTEGER_BITS or (not match[1] and match[2] == "1"):
        return None
    return IntegerType(int(match[2]), not match[1])


def round_shift(x: Any, n: Any, rounding: Rounding) -> Any:
    """`x / 2**n` rounded to an integer; `x` and `n` are Python integers or numpy int64 arrays, `n` ≥ 0.

    Example, ties to even: 5 / 2 = 2.5 → 2 and 7 / 2 = 3.5 → 4.
    """
    ones = ~((n * 0 - 1) << n)  # n of them; no step leaves 64 bits, whatever x, for n up to 63
    floor, remainder = x >> n, x & ones
    half = (ones >> 1) + (n > 0)
    is_above = remainder > half
    is_tie = (remainder == half) & (n > 0)
    match rounding:
        case Rounding.EVEN:
            return floor + (is_above | (is_tie & (floor & 1)))
        case Rounding.UP:
            return floor + (is_above | is_tie)
        case Rounding.AWAY:
            return floor + (is_above | (is_tie & (x >= 0)))


def wrap(x: Any, to: IntegerType) -> Any:
    """`x` modulo 2**bits, in the range of the type; for Python integers and numpy int64 arrays."""
    low = x & ((1 << to.bits) - 1)
    if not to.is_signed:
        return low
    sign = 1 << (to.bits - 1)
    return (low ^ sign) - sign


def leading_zeros(x: NDArray[Any]) -> NDArray[np.int64]:
    """The zeros before the first 1 of each number as a 64-bit word: 64 less the powers of two that are at most x."""
    return np.where(x < 0, 0, WORD_BITS - np.searchsorted(_POWERS_OF_TWO, x, side="right"))


def steps(codes: NDArray[Any], of: FloatType) -> NDArray[np.int64]:
    """What codes stand for, in steps of the type."""
    return np.asarray(_code_steps(of)[codes])


@cache
def _code_steps(of: FloatType) -> NDArray[np.int64]:
    """What each code stands for: mantissa · 2 ** exponent, with a 1 before the mantissa unless the exponent is 0."""
    magnitudes = np.arange(1 << of.sign_bit)
    exponents, mantissas = np.divmod(magnitudes, 1 << of.mantissa_bits)
    has_one = (exponents > 0).astype(np.int64)
    numbers = (mantissas + (has_one << of.mantissa_bits)) << (exponents - has_one)
    numbers[of.greatest + 1 :] = 0
    return np.concatenate([numbers, -numbers])


def nearest_code(x: NDArray[Any], n: NDArray[Any], to: FloatType) -> NDArray[np.int64]:
    """The code of the number nearest to `x / 2**n` steps, of two equally near the even code; for numpy int64 arrays.

    The number with the greatest magnitude is nearest to all beyond; zero has no sign. Between powers of two the
    numbers of a type lie as far apart as its step doubled so many times; below, code by code.
    Example, e2m1: 10 steps lie between 8 and 12, 4 apart, and are 2.5 of these → 2, which is 8 and has the even code.
    """
    magnitude = np.absolute(np.asarray(x, np.int64))
    highest_bit = WORD_BITS - 1 - leading_zeros(magnitude)
    doublings = np.maximum(highest_bit - n - to.mantissa_bits, 0)
    code = (doublings << to.mantissa_bits) + round_shift(magnitude, n + doublings, Rounding.EVEN)
    code = np.minimum(code, to.greatest)
    return np.where((np.asarray(x) < 0) & (code > 0), code + (1 << to.sign_bit), code)


_POWERS_OF_TWO = np.left_shift(1, np.arange(WORD_BITS - 1, dtype=np.int64))
