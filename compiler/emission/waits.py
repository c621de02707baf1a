"""Waits: for every instruction, the completed instructions of each engine that it must see before it may start.

Engines run side by side, so a word that one engine writes and another touches orders the two instructions:
read after write, write after read and write after write. Within an engine the hardware keeps the order of reads and of
writes; only a read of what an earlier instruction of the same engine wrote needs a wait, because its write may still
be in the pipeline. The array's sums are an exception to that: it adds to its own accumulators in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.allocate import Placement
from tilewright.compiler.emission.mask_steps import MaskSteps
from tilewright.compiler.tile.footprint import Footprint, program_footprints
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.machine import ENGINES

Waits = tuple[Mapping[str, int], ...]
"""For each operation: engine → how many of its instructions must be complete. Engines without a wait are absent."""


def compute_waits(program: TileProgram, placement: Placement) -> Waits:
    """The fewest wait counts, each as low as possible, that keep the sequential meaning.

    A wait is left out when what the instruction sees anyway implies it: its own engine's earlier instructions have
    started, so what they waited for has completed; and what a completed instruction waited for has completed too.
    """
    of_engine, accesses = program.of_each(engines), _accesses(program, placement)
    trackers = _trackers(of_engine, accesses)
    counts = dict.fromkeys(ENGINES, 0)
    seen = _Seen()
    waits: list[Mapping[str, int]] = []
    for engine, own in zip(of_engine, accesses, strict=True):
        needed = _needed(trackers, engine, own)
        counts[engine] += 1
        waits.append(seen.start(engine, needed))
        for access in own:
            trackers[access.place].record(engine, counts[engine], access)
    return tuple(waits)


# -- what an instruction touches ---------------------------------------------------------------------------------------


class _Access(NamedTuple):
    """Units of a place, from `start` to before `stop`: all of them, or those of `some`, counted from `start`."""

    place: str
    start: int
    stop: int
    some: NDArray[np.intp] | None
    is_read: bool
    is_write: bool


def _accesses(program: TileProgram, placement: Placement) -> list[list[_Access]]:
    """The accesses of every operation to places where some operation writes: others need no waits.

    A unit is as many words, or bytes, as all accesses to a place keep together.
    """
    footprints, addresses = program.of_each(program_footprints), placement.addresses
    place_of = {name: buffer.place for name, buffer in program.buffers.items()}
    written = {place_of[f.buffer] for each in footprints for f in each if f.is_write}
    units, steps = dict.fromkeys(written, 0), MaskSteps()
    found = []
    for each in footprints:
        own = [(place, addresses[f.buffer] + f.first, f) for f in each if (place := place_of[f.buffer]) in written]
        for place, first, footprint in own:
            unit = units[place]
            if unit != 1:
                step = len(footprint.mask) if footprint.is_whole else steps.of(footprint.mask)
                units[place] = gcd(unit, first, step)
        found.append(own)
    known: dict[tuple[int, int], NDArray[np.intp]] = {}
    return [[_access(place, first, f, units[place], known) for place, first, f in own] for own in found]


def _access(
    place: str, first: int, footprint: Footprint, unit: int, known: dict[tuple[int, int], NDArray[np.intp]]
) -> _Access:
    """A footprint from the word `first` of a place on; `known`: units of masks by identity and size of a unit."""
    _, _, is_read, is_write, _, mask, is_whole = footprint
    start, stop, some = first // unit, (first + len(mask)) // unit, None
    if not is_whole:
        key = id(mask), unit
        some = known.get(key)
        if some is None:
            some = known[key] = np.flatnonzero(mask[::unit])
    return _Access(place, start, stop, some, is_read, is_write)


# -- who touched a word last -------------------------------------------------------------------------------------------


class _Tracker:
    """For each unit of one place: the count of the last instruction of each engine that read it, and that wrote it."""

    def __init__(self, units: int, readers: Collection[str], writers: Collection[str]) -> None:
        reading, self._writers = ([engine for engine in ENGINES if engine in who] for who in (readers, writers))
        self._both = reading + self._writers
        self._rows = np.zeros((len(self._both), units), np.int32)
        self._written = self._rows[len(reading) :]
        self._reads = dict(zip(reading, self._rows[: len(reading)], strict=True))
        self._writes = dict(zip(self._writers, self._written, strict=True))

    def record(self, engine: str, count: int, access: _Access) -> None:
        """An instruction, the engine's number `count` from 1 on, has touched words."""
        where = ... if access.some is None else access.some
        if access.is_write:
            self._writes[engine][access.start : access.stop][where] = count
        if access.is_read:
            self._reads[engine][access.start : access.stop][where] = count

    def last(self, access: _Access) -> Iterator[tuple[str, int]]:
        """The engines whose accesses a new one conflicts with, and the last such instruction of each."""
        engines, rows = (self._both, self._rows) if access.is_write else (self._writers, self._written)
        if access.stop - access.start == 1:
            return zip(engines, rows[:, access.start].tolist(), strict=True)  # as below, six times as fast
        own = rows[:, access.start : access.stop]
        if access.some is not None:
            own = own.take(access.some, axis=1)  # many times faster than a mask
        return zip(engines, np.maximum.reduce(own, axis=1).tolist(), strict=True)


def _trackers(of_engine: Sequence[str], accesses: Sequence[Sequence[_Access]]) -> dict[str, _Tracker]:
    ends: dict[str, int] = defaultdict(int)
    users: set[tuple[str, str, bool, bool]] = set()
    for engine, own in zip(of_engine, accesses, strict=True):
        for place, _, stop, _, is_read, is_write in own:
            if stop > ends[place]:
                ends[place] = stop
            users.add((place, engine, is_read, is_write))
    readers, writers = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for place, engine, is_read, is_write in users:
        if is_read:
            readers[place].add(engine)
        if is_write:
            writers[place].add(engine)
    return {place: _Tracker(end, readers[place], writers[place]) for place, end in ends.items()}


def _needed(trackers: Mapping[str, _Tracker], engine: str, accesses: Sequence[_Access]) -> dict[str, int]:
    """The last instruction of each engine that the accesses conflict with."""
    needed: dict[str, int] = {}
    for access in accesses:
        of_own = reads_own_writes(access.is_write)
        for other, count in trackers[access.place].last(access):
            if count and count > needed.get(other, 0) and (of_own or other != engine):
                needed[other] = count
    return needed


def reads_own_writes(is_write: bool) -> bool:
    """True for an access that its own engine's pipeline does not keep behind that engine's earlier writes.

    Writes leave an engine in program order, and sums are added to accumulators in program order.
    """
    return not is_write


# -- what an instruction sees anyway -----------------------------------------------------------------------------------


class _Seen:
    """For every instruction so far, the completions that its start proves, by engine."""

    def __init__(self) -> None:
        self.starts: dict[str, list[dict[str, int]]] = {engine: [] for engine in ENGINES}

    def start(self, engine: str, needed: Mapping[str, int]) -> dict[str, int]:
        """Register the engine's next instruction; the waits of `needed` that nothing else implies."""
        earlier = self.starts[engine][-1] if self.starts[engine] else dict.fromkeys(ENGINES, 0)
        open_waits = {e: c for e, c in needed.items() if c > earlier[e]}
        if not open_waits:
            self.starts[engine].append(earlier)
            return {}
        completed = {e: self._completed(e, c) for e, c in open_waits.items()}
        waits = {
            e: c for e, c in open_waits.items() if all(seen[e] < c for other, seen in completed.items() if other != e)
        }
        for seen in completed.values():
            earlier = {e: max(count, seen[e]) for e, count in earlier.items()}
        self.starts[engine].append(earlier)
        return {e: waits[e] for e in ENGINES if e in waits}

    def _completed(self, engine: str, count: int) -> dict[str, int]:
        """What the completion of an engine's first `count` instructions proves."""
        proved = self.starts[engine][count - 1]
        return {**proved, engine: max(proved[engine], count)}
