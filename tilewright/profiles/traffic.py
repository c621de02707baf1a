"""What moves and what is kept in the course of a run: bytes over the bus, words of memories in use, full queues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.host.segments import ProgramRun
from tilewright.isa.program.program import place_regions
from tilewright.isa.templates.table import works_of
from tilewright.profiles.lives import Life, lives
from tilewright.simulator.cycles import simulate_cycles

Sample = tuple[int, int]
"""A cycle, and the value from then on."""


def transfer_rates(run: ProgramRun) -> list[Sample]:
    """Bytes a cycle over the bus, each transfer spread evenly from its start to its end; rounded to whole bytes.

    Fetches of instructions are not among them, for the run does not say when they come.
    """
    machine, counters = run.program.machine, run.counters
    times, rates = [], []
    for index, work in enumerate(works_of(machine, run.program.instructions)):
        beats = work.read_beats + work.write_beats
        if beats:
            begin, end = int(counters.started[index]), int(counters.retired[index])
            rate = beats * machine.dram.bus_bytes / max(1, end - begin)
            times += [begin, end]
            rates += [rate, -rate]
    return _sums(np.array(times, np.int64), np.array(rates))


def live_words(run: ProgramRun) -> dict[str, list[Sample]]:
    """By memory, how many words hold a value that is read later: from the write's end to the last read's."""
    return {name: _live_words(own) for name, own in lives(run).items()}


def queue_fills(run: ProgramRun) -> dict[str, list[Sample]]:
    """By engine, how many instructions wait in its queue.

    Hardware does not tell when it dispatches. It follows the cycle model, whose times are taken if the starts and ends
    that the hardware tells are the model's; otherwise nothing is known, and the result is empty.
    """
    program, dispatched = run.program, run.counters.dispatched
    if dispatched is None:
        model = simulate_cycles(program, place_regions(program.limits))
        is_like = np.array_equal(model.started, run.counters.started) and model.cycles == run.counters.cycles
        dispatched = model.dispatched if is_like else None
    if dispatched is None:
        return {}
    fills = {}
    for engine in program.machine.engines:
        own = [index for index, one in enumerate(program.instructions) if one.engine.name == engine]
        times = np.concatenate([dispatched[own] + 1, run.counters.started[own] + 1])
        fills[engine] = _sums(times, np.repeat(np.array([1, -1]), len(own)))
    return fills


def _live_words(own: Sequence[Life]) -> list[Sample]:
    begins = [(life.born, life.last_reads.total()) for life in own]
    ends = [(cycle, -count) for life in own for cycle, count in life.last_reads.items()]
    times, changes = np.array([*begins, *ends], np.int64).reshape(-1, 2).T
    return _sums(times, changes)


def _sums(times: NDArray[np.int64], changes: NDArray[np.int64] | NDArray[np.float64]) -> list[Sample]:
    """The running total of changes, at each time at which it changes, rounded."""
    at, place = np.unique(times, return_inverse=True)
    totals = np.round(np.cumsum(np.bincount(place, changes, at.size))).astype(np.int64)
    kept: Sequence[int] = np.flatnonzero(np.diff(totals, prepend=0)).tolist()
    return [(int(at[index]), int(totals[index])) for index in kept]
