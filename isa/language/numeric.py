"""The number rules that every executor shares: integer types and rounding. This is their only definition."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def type_of(values: Interval) -> IntegerType:
    """The narrowest type that holds all values of an interval."""
    return IntegerType(values.bits, values.is_signed)


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


def parse_integer_type(text: str, named: Mapping[str, IntegerType] = NO_TYPES) -> IntegerType:
    """Read `int16` or `uint6`, or one of the names of types; raises IsaError for anything else."""
    if text in named:
        return named[text]
    match = re.fullmatch(r"(u?)int([1-9][0-9]?)", text)
    if match is None or int(match[2]) > MAX_INTEGER_BITS or (not match[1] and match[2] == "1"):
        names = f", or a memory of integers: {', '.join(named)}" if named else ""
        raise IsaError(
            f"unknown type {text!r}: expected int2 … int{MAX_INTEGER_BITS} or uint1 … uint{MAX_INTEGER_BITS}{names}"
        )
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


_POWERS_OF_TWO = np.left_shift(1, np.arange(WORD_BITS - 1, dtype=np.int64))
