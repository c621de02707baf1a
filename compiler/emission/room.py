"""How many words of each memory are in use while operations start in another order than the program's."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.ahead import EIGHTHS
from tilewright.compiler.emission.kernels.marks import NOT_YET
from tilewright.compiler.tile.accesses import Integers
from tilewright.compiler.tile.program import TileProgram


class RoomColumns(NamedTuple):
    """A memory in use, as `kernels.room` steps it: buffers, operations and memories are numbers.

    First what stays: `named` from `begins[operation]` on are the buffers that an operation names; of each buffer,
    `size`, `memory`, and its `first` and `last` operation; of each memory, its `depth`, the most that operations ahead
    of their turn may fill, and the words in use at each operation if every operation waits for its turn (`original`).

    Then what changes: the words in use now (`live`) and at each operation, with what came earlier (`planned`); what is
    given back, by cycle, from `release_begins` to before `release_ends`; of each buffer, how many operations are `left`
    that name it, and when those so far complete (`end`, NOT_YET while it has no words); of an operation refused as
    unsafe, the turn from which on to ask again (`retry`), and whether it has `started`; and the `turn`: the first
    operation that has not.
    """

    begins: Integers
    named: Integers
    size: Integers
    memory: Integers
    first: Integers
    last: Integers
    depth: Integers
    for_ahead: Integers
    original: Integers
    live: Integers
    planned: Integers
    release_cycles: Integers
    release_words: Integers
    release_begins: Integers
    release_ends: Integers
    left: Integers
    end: Integers
    retry: Integers
    started: NDArray[np.bool_]
    turn: Integers


class BuffersOnChip:
    """The buffers on chip of a program, and which operations name them; alike for every `FreeWords` of the program."""

    def __init__(self, program: TileProgram, eighths: int = EIGHTHS) -> None:
        """`eighths`: as `Ahead` says."""
        memories = program.machine.memories
        self.memories = tuple(memories)
        self.depth = np.array([memory.depth for memory in memories.values()], np.int64)
        self.for_ahead = self.depth * eighths // EIGHTHS
        on_chip = [buffer for buffer in program.buffers.values() if buffer.place in memories]
        numbers = {buffer.name: number for number, buffer in enumerate(on_chip)}
        named = [[numbers[name] for name in own if name in numbers] for own in program.of_each(_names)]
        self.begins = np.cumsum([0, *map(len, named)])
        self.named = np.fromiter(chain.from_iterable(named), np.int64)
        self.size = np.array([buffer.size for buffer in on_chip], np.int64)
        self.memory = np.array([self.memories.index(buffer.place) for buffer in on_chip], np.int64)
        count, operation = len(named), np.repeat(np.arange(len(named)), np.diff(self.begins))
        self.uses = np.bincount(self.named, minlength=len(on_chip))
        self.first, self.last = np.full(len(on_chip), count), np.full(len(on_chip), -1)
        np.minimum.at(self.first, self.named, operation)
        np.maximum.at(self.last, self.named, operation)
        changes, used = np.zeros((len(memories), count + 2), np.int64), self.uses > 0
        np.add.at(changes, (self.memory[used], self.first[used]), self.size[used])
        np.subtract.at(changes, (self.memory[used], self.last[used] + 1), self.size[used])
        self.words = np.cumsum(changes, axis=1)[:, :-1]
        """By memory, the words in use at each operation if all of them follow in the program's order."""
        self.words.setflags(write=False)


def _names(program: TileProgram) -> list[dict[str, None]]:
    """The buffers that each operation names, once each."""
    return [dict.fromkeys([base.buffer for base in operation.bases.values()]) for operation in program.operations]


class FreeWords:
    """Words that are taken and given back as operations start; a buffer takes its words with its first operation.

    The order can always be completed: an operation ahead of its turn takes words only where they stay free until its
    turn, if all others followed in the program's own order.
    """

    def __init__(self, of: BuffersOnChip) -> None:
        memories, buffers, operations = len(of.memories), len(of.size), len(of.begins) - 1
        self.columns = RoomColumns(
            begins=of.begins,
            named=of.named,
            size=of.size,
            memory=of.memory,
            first=of.first,
            last=of.last,
            depth=of.depth,
            for_ahead=of.for_ahead,
            original=of.words.copy(),
            live=np.zeros(memories, np.int64),
            planned=of.words.copy(),
            release_cycles=np.zeros((memories, buffers), np.int64),
            release_words=np.zeros((memories, buffers), np.int64),
            release_begins=np.zeros(memories, np.int64),
            release_ends=np.zeros(memories, np.int64),
            left=of.uses.copy(),
            end=np.full(buffers, NOT_YET, np.int64),
            retry=np.zeros(operations, np.int64),
            started=np.zeros(operations + 1, np.bool_),
            turn=np.zeros(1, np.int64),
        )

    def begin_at(self, turn: int) -> None:
        """Everything before an operation is done, and words that nobody will name again are free."""
        columns = self.columns
        here = (columns.first < turn) & (columns.last >= turn)
        np.add.at(columns.live, columns.memory[here], columns.size[here])
        columns.left[:] -= np.bincount(columns.named[: columns.begins[turn]], minlength=len(columns.left))
        columns.end[here] = 0
        columns.started[:turn] = True
        columns.turn[0] = turn
