"""Repeated blocks of a network: runs of layers that are alike, one after the other, which a picture can show once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

LONGEST_BLOCK = 40
"""A block of more layers than this is not looked for."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """From layer `first` on, `times` blocks of `length` layers that are alike; `times` is 1 for a layer by itself."""

    first: int
    length: int
    times: int

    @property
    def layers(self) -> range:
        return range(self.first, self.first + self.length * self.times)


def repeats(kinds: Sequence[Hashable], shortest: int = 2) -> list[Repeat]:
    """The layers in order, in repeats that cover most from each place on; layers of one kind are alike.

    `repeats("abcbcbcd")` is a, three times bc, d. A repeat has at least `shortest` layers in a block.
    """
    found: list[Repeat] = []
    at = 0
    while at < len(kinds):
        best = Repeat(at, 1, 1)
        for length in range(shortest, min(LONGEST_BLOCK, (len(kinds) - at) // 2) + 1):
            times = _times(kinds, at, length)
            if times > 1 and times * length > len(best.layers):
                best = Repeat(at, length, times)
        found.append(best)
        at = best.layers.stop
    return found


def _times(kinds: Sequence[Hashable], first: int, length: int) -> int:
    block, times = list(kinds[first : first + length]), 1
    while list(kinds[first + times * length : first + (times + 1) * length]) == block:
        times += 1
    return times
