"""Points that are spread evenly over a space however many are taken of them: a Halton sequence over its axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.codesign.explore.space import Axis, Point


def halton_point(axes: Sequence[Axis], index: int) -> Point:
    """The point of an index from 1 on: each axis by the digits of the index in a prime base of its own."""
    fractions = (radical_inverse(index, base) for base in _primes(len(axes)))
    return tuple(axis.values[int(fraction * len(axis.values))] for axis, fraction in zip(axes, fractions, strict=True))


def radical_inverse(index: int, base: int) -> float:
    """The digits of an index mirrored at the point: 6 in base 2 is 110, so 0.011, which is 0.375."""
    fraction, weight = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        weight /= base
        fraction += digit * weight
    return fraction


@cache
def _primes(count: int) -> tuple[int, ...]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return tuple(found)
