"""Whether an instruction feeds itself: reads a word in a later iteration than it writes it.

In place is fine, feeding itself is not: then a pipeline of any depth has the meaning of the sequential loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import OperandReach, operand_steps, word_count
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.program.demands import are_apart
from tilewright.isa.templates.table import facet_of

MAX_ITERATIONS = 1 << 62
"""Iterations are numbered by integers of 64 bits."""

CALL_STEPS = 512
"""Elements that are copied in the time that a call of numpy takes."""


def fed_back_word(instruction: Instruction, reaches: Sequence[OperandReach]) -> tuple[str, int] | None:
    """(source, word) that is written before it is read for the last time, or None. Accesses must be in bounds.

    Raises IsaError when source and destination overlap over MAX_ITERATIONS iterations or more.
    """
    *sources, destination = reaches
    for source in sources:
        if not _may_meet(instruction, source, destination) or _is_in_place(instruction, source.operand):
            continue
        word = _first_fed_back(instruction, source.operand)
        if word is not None:
            return source.operand.name, word
    return None


def repeated_sum(instruction: Instruction) -> bool:
    """True when a systolic instruction adds two different sums into one word: its sums must have words of their own."""
    format = instruction.format
    if not facet_of(format.engine.template).adds_in_memory:
        return False
    sums, destination = 1, format.destination
    for place in format.trip_places_of_sums:
        sums *= instruction.values[place]
    return word_count(operand_steps(instruction, destination), destination.block) != sums * destination.block


def _may_meet(instruction: Instruction, source: OperandReach, destination: OperandReach) -> bool:
    """Whether a source lies in the memory of the destination, and what both reach of it overlaps."""
    if source.operand.memory != destination.operand.memory:
        return False
    read, written = instruction.values[source.base], instruction.values[destination.base]
    return read + source.low < written + destination.high and written + destination.low < read + source.high


def _is_in_place(instruction: Instruction, source: Operand) -> bool:
    """Both move alike and visit each word once, so each word is read in the iteration that writes it."""
    destination = instruction.format.destination
    trips = instruction.trips
    read, written = instruction.strides(source), instruction.strides(destination)
    moving = [loop for loop, trip in trips.items() if trip > 1]
    is_alike = (
        instruction.base(source.name) == instruction.base(destination.name)
        and source.block == destination.block
        and all(read[loop] == written[loop] for loop in moving)
    )
    return is_alike and are_apart([(written[loop], trips[loop]) for loop in moving], destination.block)


def _first_fed_back(instruction: Instruction, source: Operand) -> int | None:
    """The first word whose last read comes after its first write.

    Each word's first and last iteration is found loop by loop, from the innermost outwards: a copy of what the inner
    loops visit for each index. So it takes as long as the copies are, and not as there are iterations.
    """
    destination = instruction.format.destination
    if math.prod(instruction.trips.values()) >= MAX_ITERATIONS:
        raise IsaError(
            f"{source.name} and {destination.name} overlap over {MAX_ITERATIONS} iterations or more; split it"
        )
    first_read, reads = _visits(_loops(instruction, source, False), source.block, is_last=True)
    first_written, writes = _visits(_loops(instruction, destination, True), destination.block, is_last=False)
    first_read += instruction.base(source.name)
    first_written += instruction.base(destination.name)
    low = max(first_read, first_written)
    high = min(first_read + len(reads), first_written + len(writes))
    reads, writes = reads[low - first_read : high - first_read], writes[low - first_written : high - first_written]
    fed_back = np.flatnonzero((reads >= 0) & (writes >= 0) & (reads > writes))
    return low + int(fed_back[0]) if len(fed_back) else None


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that an operand moves over, and those of its indices at which it reads or writes."""

    stride: int
    trip: int
    indices: range


def _loops(instruction: Instruction, operand: Operand, is_written: bool) -> list[_Loop]:
    """The loops of an operand, outermost first. Only sums in memory are written before they are complete."""
    strides, loops = instruction.strides(operand), []
    writes_last = is_written and not facet_of(instruction.engine.template).adds_in_memory
    for loop in instruction.format.loops:
        trip = instruction[f"trip.{loop.name}"]
        first = trip - 1 if loop.is_reduce and writes_last else 0
        loops.append(_Loop(strides[loop.name], trip, range(first, trip)))
    return loops


def _visits(loops: Sequence[_Loop], block: int, is_last: bool) -> tuple[int, NDArray[np.int64]]:
    """(lowest word, iteration of the first or last visit of each word from it on; -1 of one that is not visited)."""
    low, visits, inner = 0, np.zeros(block, np.int64), 1
    for loop in reversed(loops):
        indices = _telling(loop, is_last)
        ends = sorted((loop.stride * indices[0], loop.stride * indices[-1]))
        merged = np.full(len(visits) + ends[1] - ends[0], -1, np.int64)
        for index in indices:
            start = index * loop.stride - ends[0]
            place = merged[start : start + len(visits)]
            np.copyto(place, visits + index * inner, where=(place < 0) & (visits >= 0))
        low, visits, inner = low + ends[0], merged, inner * loop.trip
    return low, visits


def _telling(loop: _Loop, is_last: bool) -> range:
    """The indices of a loop in the order in which they count: of those that visit the same words only the first."""
    ordered = loop.indices[::-1] if is_last else loop.indices
    return ordered if loop.stride else ordered[:1]


def feedback_steps(instruction: Instruction, reaches: Sequence[OperandReach]) -> int:
    """About how many elements `fed_back_word` copies for an instruction whose accesses are in bounds."""
    *sources, destination = reaches
    steps = 0
    for source in sources:
        if _may_meet(instruction, source, destination) and not _is_in_place(instruction, source.operand):
            steps += _steps(_loops(instruction, source.operand, False), source.operand.block)
            steps += _steps(_loops(instruction, destination.operand, True), destination.operand.block)
    return steps


def _steps(loops: Sequence[_Loop], block: int) -> int:
    length, steps = block, 0
    for loop in reversed(loops):
        indices = _telling(loop, False)
        steps += len(indices) * (length + CALL_STEPS)
        length += abs(loop.stride) * (len(indices) - 1)
    return steps
