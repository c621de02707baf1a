"""How many words of each memory are in use while operations start in another order than the program's."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.ahead import EIGHTHS
from tilewright.compiler.tile.program import TileBuffer, TileProgram

AHEAD = 3, 4
"""The share of the words free at its turn that an operation may fill ahead of it; the rest leaves the allocator a
choice."""


@dataclass(slots=True)
class _Memory:
    """Words of a memory: in use now, given back at a cycle, and in use at each position of the program's order."""

    depth: int
    for_ahead: int  # what operations ahead of their turn may fill at the most
    live: int
    releases: list[tuple[int, int]]  # (cycle, words), by cycle
    original: Sequence[int]  # if every operation waits for its turn
    planned: NDArray[np.int64]  # with what came earlier

    def plan(self, turn: int, stop: int, words: int) -> None:
        """Have so many words more in use from an operation to before another."""
        if turn < stop:
            own = self.planned[turn:stop]
            own += words


class Residents:
    """The buffers on chip of a program, and which operations name them; the same for every `Room` of the program."""

    def __init__(self, program: TileProgram, eighths: int = EIGHTHS) -> None:
        """`eighths`: as `Ahead` says."""
        self.memories = program.machine.memories
        self.for_ahead = {name: memory.depth * eighths // EIGHTHS for name, memory in self.memories.items()}
        self.of_operation = program.of_each(_on_chip)
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.uses: dict[str, list[int]] = {}  # the operations that name a buffer
        changes = {name: [0] * (len(program.operations) + 2) for name in self.memories}
        for index, buffers in enumerate(self.of_operation):
            for buffer in buffers:
                name = buffer.name
                if name not in self.first:
                    self.first[name] = index
                    changes[buffer.place][index] += buffer.size
                self.uses.setdefault(name, []).append(index)
                self.last[name] = index
        for name, last in self.last.items():
            changes[program.buffers[name].place][last + 1] -= program.buffers[name].size
        self.words = {name: list(accumulate(change[:-1])) for name, change in changes.items()}
        """By memory, the words in use at each operation if all of them follow in the program's order."""
        self.planned = {name: np.array(words, np.int64) for name, words in self.words.items()}
        """The same as arrays; each `Room` changes a copy."""


def _on_chip(program: TileProgram) -> list[tuple[TileBuffer, ...]]:
    """The buffers on chip that each operation names, once each."""
    on_chip = {name: buffer for name, buffer in program.buffers.items() if buffer.place in program.machine.memories}
    names = [dict.fromkeys([base.buffer for base in operation.bases.values()]) for operation in program.operations]
    return [tuple([on_chip[name] for name in own if name in on_chip]) for own in names]


class Room:
    """Words that are taken and given back as operations start; a buffer takes its words with its first operation.

    The order can always be completed: an operation ahead of its turn takes words only where they stay free until its
    turn, if all others followed in the program's own order.
    """

    def __init__(self, residents: Residents) -> None:
        self.turn = 0  # the first operation that has not started
        self._buffers, self._first, self._last = residents.of_operation, residents.first, residents.last
        self._uses = residents.uses
        self._left: dict[str, int] = {}  # operations that are still to name a buffer; all of its uses if it is not here
        self._end: dict[str, int] = {}  # when the operations so far complete; a buffer has no words before it is here
        self._retry: dict[int, int] = {}  # an operation refused as unsafe → the turn from which on to ask again
        self._started = [False] * (len(self._buffers) + 1)
        words, most = residents.words, residents.for_ahead
        self._memories = {
            name: _Memory(memory.depth, most[name], 0, [], words[name], residents.planned[name].copy())
            for name, memory in residents.memories.items()
        }

    def begin_at(self, turn: int) -> None:
        """Everything before an operation is done, and words that nobody will name again are free."""
        for name, first in self._first.items():
            if first >= turn:
                break  # they are in the order of their first operations
            if self._last[name] >= turn:
                uses = self._uses[name]
                buffer = next(buffer for buffer in self._buffers[first] if buffer.name == name)
                self._memories[buffer.place].live += buffer.size
                self._left[name] = len(uses) - bisect_left(uses, turn)
                self._end[name] = 0
        self._started[:turn] = [True] * turn
        self.turn = turn

    def fresh(self, index: int) -> list[TileBuffer]:
        """The buffers that take their words with an operation."""
        return [buffer for buffer in self._buffers[index] if buffer.name not in self._end]

    def ready(self, index: int, fresh: Collection[TileBuffer], reserved: Mapping[str, int]) -> int | None:
        """The first cycle in which there are words for an operation's fresh buffers; None if that is not known yet.

        `reserved`: by memory, words to leave for operations that wait.
        """
        cycle = 0
        for buffer in fresh:
            memory = self._memories[buffer.place]
            over = memory.live + reserved.get(buffer.place, 0) + buffer.size - self._limit(memory, index)
            if over <= 0:
                continue
            for released, words in memory.releases:
                over -= words
                if over <= 0:
                    cycle = max(cycle, released)
                    break
            else:
                return None
        return cycle if self._is_safe(index, fresh) else None

    def take(self, index: int, start: int, end: int) -> None:
        """Start an operation in a cycle, not before those that started earlier; it completes in cycle `end`."""
        for memory in self._memories.values():
            while memory.releases and memory.releases[0][0] <= start:
                memory.live -= memory.releases.pop(0)[1]
        for buffer in self._buffers[index]:
            name, memory = buffer.name, self._memories[buffer.place]
            if name not in self._end:
                memory.live += buffer.size
                memory.plan(self.turn, self._first[name], buffer.size)
            self._end[name] = max(self._end.get(name, 0), end)
            left = self._left[name] = self._left.get(name, len(self._uses[name])) - 1
            if not left:
                # Nobody names it any more: what came before its turn leaves its words to others, then as well.
                insort(memory.releases, (self._end[name], buffer.size))
                memory.plan(self.turn, self._last[name] + 1, -buffer.size)
                if self.turn < self._first[name]:
                    self._retry.clear()  # there is more room than when they were refused
        self._started[index] = True
        while self._started[self.turn]:
            self.turn += 1

    def _limit(self, memory: _Memory, index: int) -> int:
        if index == self.turn:
            return max(memory.depth, int(memory.planned[index]))  # what never fits is refused by the allocator
        in_use = memory.original[index]
        filled = in_use + (memory.depth - in_use) * AHEAD[0] // AHEAD[1]
        return max(in_use, min(filled, memory.for_ahead))

    def _is_safe(self, index: int, fresh: Collection[TileBuffer]) -> bool:
        if index <= self.turn or not fresh:
            return True
        if self._retry.get(index, 0) > self.turn:
            return False
        for buffer in fresh:
            memory = self._memories[buffer.place]
            until_its_turn = memory.planned[self.turn : self._first[buffer.name]]
            most = self._limit(memory, index) - buffer.size
            if until_its_turn.size and np.maximum.reduce(until_its_turn) > most:
                self._retry[index] = self.turn + int(np.flatnonzero(until_its_turn > most)[-1]) + 1
                return False
        return True
