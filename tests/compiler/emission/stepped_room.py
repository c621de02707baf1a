"""Room as a test steps through it, one operation at a time; schedules do so within their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compiler.emission.kernels.marks import NOT_YET
from tilewright.compiler.emission.kernels.room import fits, take
from tilewright.compiler.emission.room import BuffersOnChip, FreeWords
from tilewright.compiler.tile.accesses import Integers
from tilewright.isa.kernels.kernel import kept_on_disk


@kept_on_disk
def take_words(r: Any, index: int, start: int, end: int) -> None:
    """`take`, from outside of a kernel."""
    take(r, index, start, end)


@kept_on_disk
def cycles_that_fit(r: Any, index: int, buffers: Integers, reserved: Integers, found: Integers) -> None:
    """`fits` for each row of `reserved`, from outside of a kernel."""
    for row in range(len(reserved)):
        found[row] = fits(r, index, buffers, 0, len(buffers), reserved[row])


class SteppedRoom(FreeWords):
    """Words that are free while a test starts operations in any order."""

    def __init__(self, residents: BuffersOnChip) -> None:
        super().__init__(residents)
        self._residents = residents

    @property
    def turn(self) -> int:
        """The first operation that has not started."""
        return int(self.columns.turn[0])

    def fresh(self, index: int) -> list[int]:
        """The buffers that take their words with an operation."""
        columns = self.columns
        named = columns.named[columns.begins[index] : columns.begins[index + 1]].tolist()
        return [buffer for buffer in named if columns.end[buffer] == NOT_YET]

    def ready(self, index: int, fresh: Sequence[int], reserved: Sequence[Mapping[str, int]]) -> list[int | None]:
        """The first cycle in which there are words for an operation's fresh buffers; None if that is not known yet.

        Asked for each of `reserved`: by memory, words to leave for operations that wait.
        """
        left = np.array([[each.get(name, 0) for name in self._residents.memories] for each in reserved], np.int64)
        found = np.zeros(len(reserved), np.int64)
        cycles_that_fit(self.columns, index, np.array(fresh, np.int64), left, found)
        return [None if cycle == NOT_YET else cycle for cycle in found.tolist()]

    def take(self, index: int, start: int, end: int) -> None:
        """Start an operation in a cycle, not before those that started earlier; it completes in cycle `end`."""
        take_words(self.columns, index, start, end)
