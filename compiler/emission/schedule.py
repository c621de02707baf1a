"""The order of operations: loads move ahead of the work that does not need them, so that DMA and compute overlap.

Engines run their queues in order and the dispatcher runs ahead only as far as the queues reach: a load that stands late
in the program starts late even if its engine is idle. But where more loads stand ahead of an operation than the queue
holds, the operation waits for their start. So each operation is passed by a bounded number of loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.lifetimes import Lifetime, buffer_lifetimes
from tilewright.compiler.tile.footprint import Footprint, dense_region, program_footprints
from tilewright.compiler.tile.program import TileProgram

LOAD = "load"
"""The engine whose operations may move ahead."""


def schedule(program: TileProgram, loads_ahead: int) -> TileProgram:
    """The same operations with loads earlier, at most `loads_ahead` of them past any other operation.

    The sequential meaning is kept: a load never passes an operation that touches a word that it touches (unless both
    only read), and never another load; it moves only where its buffer fits beside those that are alive there. All
    other operations keep their order.
    """
    if loads_ahead <= 0:
        return program
    ready = _ready_positions(program)
    passed = np.zeros(len(program.operations), np.int64)  # loads that have moved past each operation
    room = _Room(program)
    keys = []
    previous = 0
    for index, operation in enumerate(program.operations):
        if program.machine.format(operation.mnemonic).engine != LOAD:
            keys.append((index, 1, index))
            continue
        earliest = max(ready[index], previous)
        full = np.flatnonzero(passed[earliest:index] >= loads_ahead)
        target = room.claim(index, earliest + int(full[-1]) + 1 if len(full) else earliest)
        passed[target:index] += 1
        previous = target
        keys.append((target, 0, index))
    order = [index for _, _, index in sorted(keys)]
    return replace(program, operations=tuple(program.operations[index] for index in order))


# -- what a load must stay behind --------------------------------------------------------------------------------------


def _ready_positions(program: TileProgram) -> list[int]:
    """Per operation: one more than the last earlier operation that touches its words, 0 if there is none."""
    history: dict[str, _History] = {}
    sizes = _space_sizes(program)
    all_footprints = program_footprints(program)
    written = {_span(program, f)[0] for footprints in all_footprints for f in footprints if f.is_write}
    last_use = {_span(program, f)[0]: i for i, footprints in enumerate(all_footprints) for f in footprints}
    ready = []
    for index, footprints in enumerate(all_footprints):
        spans = [(*_span(program, footprint), footprint) for footprint in footprints]
        spans = [span for span in spans if span[0] in written]  # what nobody writes orders nothing
        position = 0
        for space, first, footprint in spans:
            known = history.setdefault(space, _History(sizes[space]))
            position = max(position, known.last_conflict(first, footprint))
        for space, first, footprint in spans:
            history[space].record(index, first, footprint)
        for space in {space for space, _, _ in spans if last_use[space] == index}:
            del history[space]  # it has eight bytes for each byte of a tensor in DRAM
        ready.append(position)
    return ready


class _History:
    """Per word, one more than the last operation that wrote it, and that read it."""

    def __init__(self, words: int) -> None:
        self.written: NDArray[np.int32] | None = None
        self.read: NDArray[np.int32] | None = None
        self.words = words

    def last_conflict(self, first: int, footprint: Footprint) -> int:
        span = slice(first, first + len(footprint.mask))
        last = 0
        if self.written is not None:
            last = int(self.written[span].max(where=footprint.mask, initial=0))
        if footprint.is_write and self.read is not None:
            last = max(last, int(self.read[span].max(where=footprint.mask, initial=0)))
        return last

    def record(self, index: int, first: int, footprint: Footprint) -> None:
        span = slice(first, first + len(footprint.mask))
        if footprint.is_write:
            if self.written is None:
                self.written = np.zeros(self.words, np.int32)
            self.written[span][footprint.mask] = index + 1
        if footprint.is_read:
            if self.read is None:
                self.read = np.zeros(self.words, np.int32)
            self.read[span][footprint.mask] = index + 1


def _span(program: TileProgram, footprint: Footprint) -> tuple[str, int]:
    space, offset = dense_region(program.buffers[footprint.buffer])
    return space, offset + footprint.first


def _space_sizes(program: TileProgram) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for buffer in program.buffers.values():
        space, offset = dense_region(buffer)
        sizes[space] = max(sizes.get(space, 0), offset + buffer.size)
    return sizes


# -- where a load's buffer fits ----------------------------------------------------------------------------------------


class _Room:
    """Words of each memory that are alive at each operation, as loads move."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.lifetimes = {life.buffer.name: life for life in buffer_lifetimes(program)}
        self.depths = {memory.name: memory.depth for memory in program.machine.memories.values()}
        self.live = {name: np.zeros(len(program.operations) + 1, np.int64) for name in self.depths}
        for life in self.lifetimes.values():
            if life.buffer.place in self.live:
                self.live[life.buffer.place][life.first : life.last + 1] += life.buffer.size

    def claim(self, index: int, earliest: int) -> int:
        """The first position from `earliest` on where every buffer that starts with this load fits; marks it alive."""
        starting = self._starting_with(index)
        target = earliest
        for life in starting:
            live = self.live[life.buffer.place][target:index]
            full = np.flatnonzero(live + life.buffer.size > self.depths[life.buffer.place])
            if len(full):
                target += int(full[-1]) + 1
        for life in starting:
            self.live[life.buffer.place][target:index] += life.buffer.size
        return target

    def _starting_with(self, index: int) -> Sequence[Lifetime]:
        bases = self.program.operations[index].bases.values()
        names = dict.fromkeys(base.buffer for base in bases)
        return [
            self.lifetimes[name]
            for name in names
            if self.lifetimes[name].buffer.place in self.live and self.lifetimes[name].first == index
        ]
