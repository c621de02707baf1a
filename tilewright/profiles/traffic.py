"""What moves and what is kept in the course of a run: bytes over the bus, and words of memories that are in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import Access, footprint
from tilewright.isa.machine.machine import Template
from tilewright.segments import ProgramRun
from tilewright.simulator.profile import work_of

Sample = tuple[int, int]
"""A cycle, and the value from then on."""


def transfer_rates(run: ProgramRun) -> list[Sample]:
    """Bytes a cycle over the bus, each transfer spread evenly from its start to its end; rounded to whole bytes.

    Fetches of instructions are not among them, for the run does not say when they come.
    """
    machine, counters = run.program.machine, run.counters
    times, rates = [], []
    for index, instruction in enumerate(run.program.instructions):
        if machine.engines[instruction.engine].template is Template.DMA:
            work = work_of(machine, instruction)
            fetched = machine.instruction_bytes // machine.dram.bus_bytes
            beats = work.read_beats - fetched + work.write_beats
            begin, end = int(counters.started[index]), int(counters.retired[index])
            rate = beats * machine.dram.bus_bytes / max(1, end - begin)
            times += [begin, end]
            rates += [rate, -rate]
    return _sums(np.array(times, np.int64), np.array(rates))


def live_words(run: ProgramRun) -> dict[str, list[Sample]]:
    """By memory, how many words hold a value that is read later: from the write's end to the last read's."""
    machine = run.program.machine
    memories = {name: _Memory(memory.depth) for name, memory in machine.memories.items()}
    for index, instruction in enumerate(run.program.instructions):
        for access in footprint(instruction, machine):
            if not access.is_dram:
                memories[access.place].note(access, int(run.counters.retired[index]))
    return {name: memory.samples() for name, memory in memories.items()}


@dataclass
class _Memory:
    """The words of one memory, and the lives that have ended: +1 when one begins, -1 when it ends."""

    depth: int
    written: NDArray[np.int64] = field(init=False)
    read: NDArray[np.int64] = field(init=False)
    times: list[NDArray[np.int64]] = field(default_factory=list)
    changes: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.written = np.full(self.depth, -1, np.int64)
        self.read = np.full(self.depth, -1, np.int64)

    def note(self, access: Access, retired: int) -> None:
        for first, end in access.ranges:
            words = slice(max(0, int(first)), int(end))
            if access.is_write:
                self._end(words)
                self.written[words] = retired
                self.read[words] = -1
            else:
                np.maximum(self.read[words], retired, out=self.read[words])

    def _end(self, words: slice) -> None:
        """Keep the lives of these words that had a reader."""
        written, read = self.written[words], self.read[words]
        lived = (written >= 0) & (read > written)
        for times, change in ((written[lived], 1), (read[lived], -1)):
            distinct, count = np.unique(times, return_counts=True)
            self.times.append(distinct)
            self.changes.append(change * count)

    def samples(self) -> list[Sample]:
        self._end(slice(None))
        return _sums(np.concatenate(self.times), np.concatenate(self.changes))


def _sums(times: NDArray[np.int64], changes: NDArray[np.int64] | NDArray[np.float64]) -> list[Sample]:
    """The running total of changes, at each time at which it changes, rounded."""
    at, place = np.unique(times, return_inverse=True)
    totals = np.round(np.cumsum(np.bincount(place, changes, at.size))).astype(np.int64)
    kept: Sequence[int] = np.flatnonzero(np.diff(totals, prepend=0)).tolist()
    return [(int(at[index]), int(totals[index])) for index in kept]
