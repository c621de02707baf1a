"""Waits: for every instruction, the completed instructions of each engine that it must see before it may start.

Engines run side by side, so a word that one engine writes and another touches orders the two instructions:
read after write, write after read and write after write. Within an engine the hardware keeps the order of reads and of
writes; only a read of what an earlier instruction of the same engine wrote needs a wait, because its write may still
be in the pipeline. The array's sums are an exception to that: it adds to its own accumulators in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.allocate import Placement
from tilewright.compiler.tile.footprint import Footprint, program_footprints
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.machine.machine import ENGINES

Waits = tuple[Mapping[str, int], ...]
"""For each operation: engine → how many of its instructions must be complete. Engines without a wait are absent."""


def compute_waits(program: TileProgram, placement: Placement) -> Waits:
    """The fewest wait counts, each as low as possible, that keep the sequential meaning.

    A wait is left out when what the instruction sees anyway implies it: its own engine's earlier instructions have
    started, so what they waited for has completed; and what a completed instruction waited for has completed too.
    """
    engines = [program.machine.format(operation.mnemonic).engine for operation in program.operations]
    trackers = _trackers(program, placement)
    counts = dict.fromkeys(ENGINES, 0)
    seen = _Seen()
    waits: list[Mapping[str, int]] = []
    for engine, footprints in zip(engines, program_footprints(program), strict=True):
        absolute = [_absolute(program, placement, footprint) for footprint in footprints]
        needed = _needed(trackers, engine, absolute)
        counts[engine] += 1
        waits.append(seen.start(engine, needed))
        for place, first, footprint in absolute:
            trackers[place].record(engine, counts[engine], first, footprint)
    return tuple(waits)


# -- who touched a word last -------------------------------------------------------------------------------------------


class _Tracker:
    """For each word of one place: the count of the last instruction of each engine that wrote it, and that read it."""

    def __init__(self, words: int, is_written: bool) -> None:
        self.words = words
        self.is_written = is_written
        self.writers: dict[str, NDArray[np.int32]] = {}
        self.readers: dict[str, NDArray[np.int32]] = {}

    def record(self, engine: str, count: int, first: int, footprint: Footprint) -> None:
        if not self.is_written:
            return
        if footprint.is_write:
            self._set(self._counts(self.writers, engine), count, first, footprint)
        if footprint.is_read:
            self._set(self._counts(self.readers, engine), count, first, footprint)

    @staticmethod
    def _set(counts: NDArray[np.int32], count: int, first: int, footprint: Footprint) -> None:
        span = counts[first : first + len(footprint.mask)]
        span[... if footprint.is_whole else footprint.mask] = count

    def _counts(self, by_engine: dict[str, NDArray[np.int32]], engine: str) -> NDArray[np.int32]:
        if engine not in by_engine:
            by_engine[engine] = np.zeros(self.words, np.int32)
        return by_engine[engine]


def _trackers(program: TileProgram, placement: Placement) -> dict[str, _Tracker]:
    machine = program.machine
    words = {memory.name: memory.depth for memory in machine.memories.values()}
    for buffer in program.buffers.values():
        if buffer.place not in machine.memories and buffer.name in placement.addresses:
            end = placement.addresses[buffer.name] + buffer.size
            words[buffer.place] = max(words.get(buffer.place, 0), end)
    written = {_written_place(program, index) for index in range(len(program.operations))}
    return {place: _Tracker(size, place in written) for place, size in words.items()}


def _written_place(program: TileProgram, index: int) -> str:
    operation = program.operations[index]
    destination = program.machine.format(operation.mnemonic).destination
    return program.buffers[operation.bases[destination.name].buffer].place


def _absolute(program: TileProgram, placement: Placement, footprint: Footprint) -> tuple[str, int, Footprint]:
    place = program.buffers[footprint.buffer].place
    return place, placement.addresses[footprint.buffer] + footprint.first, footprint


def _needed(
    trackers: Mapping[str, _Tracker], engine: str, accesses: Sequence[tuple[str, int, Footprint]]
) -> dict[str, int]:
    """The last instruction of each engine that the accesses conflict with."""
    needed: dict[str, int] = {}
    for place, first, footprint in accesses:
        span = slice(first, first + len(footprint.mask))
        tracker = trackers[place]
        for other, counts in tracker.writers.items():
            if other != engine or reads_own_writes(footprint):
                _raise(needed, other, counts[span], footprint)
        if footprint.is_write:
            for other, counts in tracker.readers.items():
                if other != engine:
                    _raise(needed, other, counts[span], footprint)
    return needed


def reads_own_writes(footprint: Footprint) -> bool:
    """True for an access that its own engine's pipeline does not keep behind that engine's earlier writes.

    Writes leave an engine in program order, and sums are added to accumulators in program order.
    """
    return not footprint.is_write


def _raise(needed: dict[str, int], engine: str, counts: NDArray[np.int32], footprint: Footprint) -> None:
    last = int(counts.max() if footprint.is_whole else counts.max(where=footprint.mask, initial=0))
    if last > needed.get(engine, 0):
        needed[engine] = last


# -- what an instruction sees anyway -----------------------------------------------------------------------------------


class _Seen:
    """For every instruction so far, the completions that its start proves, as a vector over the engines."""

    def __init__(self) -> None:
        self.starts: dict[str, list[NDArray[np.int64]]] = {engine: [] for engine in ENGINES}

    def start(self, engine: str, needed: Mapping[str, int]) -> dict[str, int]:
        """Register the engine's next instruction; the waits of `needed` that nothing else implies."""
        earlier = self.starts[engine][-1] if self.starts[engine] else np.zeros(len(ENGINES), np.int64)
        open_waits = {e: c for e, c in needed.items() if c > earlier[ENGINES.index(e)]}
        completed = {e: self._completed(e, c) for e, c in open_waits.items()}
        waits = {
            e: c
            for e, c in open_waits.items()
            if all(seen[ENGINES.index(e)] < c for other, seen in completed.items() if other != e)
        }
        self.starts[engine].append(np.maximum.reduce([earlier, *completed.values()]))
        return {e: waits[e] for e in ENGINES if e in waits}

    def _completed(self, engine: str, count: int) -> NDArray[np.int64]:
        """What the completion of an engine's first `count` instructions proves."""
        proved = self.starts[engine][count - 1].copy()
        proved[ENGINES.index(engine)] = max(proved[ENGINES.index(engine)], count)
        return proved
