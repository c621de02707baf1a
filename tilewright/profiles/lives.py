"""Which layer's words lie where in a memory, from when they are written until they are last read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.host.segments import ProgramRun
from tilewright.isa.check.footprint import OperandAccess, footprint
from tilewright.simulator.profile import instructions_of_layers, layers_of


@dataclass(frozen=True, slots=True)
class Life:
    """Words from `first` up to `end` that one instruction wrote, to be seen from the cycle `born` on.

    `last_reads` says, by cycle, how many of the words are read then for the last time; words that no later instruction
    reads are not among them.
    """

    layer: int
    first: int
    end: int
    born: int
    last_reads: Counter[int] = field(default_factory=Counter)

    @property
    def dead(self) -> int:
        """When the last of the words is read for the last time."""
        return max(self.last_reads)


def lives(run: ProgramRun) -> dict[str, list[Life]]:
    """By memory, every write of which some words are read later, in program order.

    A write with gaps goes from its first word to its last.
    """
    machine = run.program.machine
    layer_of = np.zeros(len(run.program.instructions), np.int64)
    for position, indices in enumerate(instructions_of_layers(run.program, layers_of(run.program))):
        layer_of[indices] = position
    memories = {
        name: _Memory(memory.depth, int(run.counters.retired.max(initial=0)))
        for name, memory in machine.memories.items()
    }
    for index, instruction in enumerate(run.program.instructions):
        for access in footprint(instruction, machine):
            if not access.is_dram:
                memories[access.place].note(access, int(run.counters.retired[index]), int(layer_of[index]))
    return {name: memory.lives() for name, memory in memories.items()}


class _Memory:
    """What the words of a memory hold: by word, the number of the write it is from, and the cycle of the last read."""

    def __init__(self, depth: int, cycles: int) -> None:
        self._base = cycles + 1  # a pair of a write and a cycle is one number in this base
        self._writes: list[Life] = []
        self._writer: NDArray[np.int64] = np.full(depth, -1, np.int64)
        self._read: NDArray[np.int64] = np.full(depth, -1, np.int64)

    def note(self, access: OperandAccess, retired: int, layer: int) -> None:
        """An access of an instruction that is retired in this cycle."""
        ranges = [slice(max(0, int(first)), int(end)) for first, end in access.ranges]
        if not access.is_write:
            for words in ranges:
                np.maximum(self._read[words], retired, out=self._read[words])
            return
        self._writes.append(Life(layer, access.first, access.end, retired))
        for words in ranges:
            self._end(words)
            self._writer[words] = len(self._writes) - 1
            self._read[words] = -1

    def lives(self) -> list[Life]:
        """The writes so far that were read, when nothing comes any more."""
        self._end(slice(None))
        return [life for life in self._writes if life.last_reads]

    def _end(self, words: slice) -> None:
        """These words are overwritten: note the last reads of what they held."""
        writers, reads = self._writer[words], self._read[words]
        was_read = (writers >= 0) & (reads >= 0)
        pairs = writers[was_read] * self._base + reads[was_read]
        for pair, count in Counter(pairs.tolist()).items():
            writer, read = divmod(pair, self._base)
            if read > self._writes[writer].born:
                self._writes[writer].last_reads[read] += count
