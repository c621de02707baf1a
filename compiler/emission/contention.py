"""Which buffers are used at the same time through the same kind of port, and for about how many cycles.

A bank has one read port and one write port. So two buffers that two engines read at the same time, or that one
operation reads, should be in different banks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from tilewright.compiler.emission.durations import Duration, durations
from tilewright.compiler.tile.footprint import reads_destination
from tilewright.compiler.tile.program import TileOperation, TileProgram, engines, forms
from tilewright.isa.machine.machine import Machine, Template
from tilewright.isa.timing import mma_read

Contention = Mapping[str, Mapping[str, int]]
"""By buffer, the others and the cycles; buffers of different memories never contend."""


class _Access(NamedTuple):
    """So many words, read from a buffer or written to it from one cycle to another.

    `is_first`: where another engine wants the port in the same cycle, that engine waits.
    """

    buffer: str
    memory: str
    is_write: bool
    is_first: bool
    begin: int
    end: int
    words: int

    def of(self, buffer: str, start: int) -> _Access:
        """The same of another buffer, so many cycles later."""
        _, memory, is_write, is_first, begin, end, words = self
        return _Access(buffer, memory, is_write, is_first, begin + start, end + start, words)


def contention(program: TileProgram) -> Contention:
    """The contention of all buffers on chip.

    Operations start in program order, when their engine is free and what they read on chip is there.
    """
    found: dict[str, dict[str, int]] = {}
    of_form: dict[int, list[_Access]] = {}  # of an operation that starts in cycle 0; for the buffer, the operand's name
    running: dict[str, deque[tuple[int, list[_Access]]]] = {}  # by engine, what operations to come may meet; its end
    free: dict[str, int] = {}  # by engine, when it can start the next operation
    there: dict[str, int] = {}  # by buffer, when the last word written to it is there
    start = 0
    steps = zip(
        program.operations, program.of_each(forms), program.of_each(engines), program.of_each(durations), strict=True
    )
    for operation, form, engine, duration in steps:
        if form not in of_form:
            of_form[form] = _accesses(program.machine, operation, duration)
        alike = [(operation.bases[access.buffer].buffer, access) for access in of_form[form]]
        # The array adds to its own sums without a wait.
        read = [there.get(buffer, 0) for buffer, access in alike if not access.is_write and not access.is_first]
        start = max(start, free.get(engine, 0), *read)
        free[engine] = start + duration.busy
        accesses = [access.of(buffer, start) for buffer, access in alike]
        end = start
        for access in accesses:
            end = max(end, access.end)
            if access.is_write:
                there[access.buffer] = access.end
        _add(found, accesses, accesses)
        for other, earlier in running.items():
            while earlier and earlier[0][0] <= start:
                earlier.popleft()
            if other != engine:
                for _, others in earlier:
                    _add(found, accesses, others)
        running.setdefault(engine, deque()).append((end, accesses))
    return found


def _accesses(machine: Machine, operation: TileOperation, duration: Duration) -> list[_Access]:
    """What an operation that starts in cycle 0 reads and writes on chip, by operand."""
    format = machine.format(operation.mnemonic)
    to, busy, complete = format.destination, duration.busy, duration.complete
    trips = {loop.name: operation.fields.get(f"trip.{loop.name}", 1) for loop in format.loops}
    words = prod(trips.values())
    results = prod(trip for loop, trip in trips.items() if loop not in format.reduce_loops)
    found = [_Access(operand.name, operand.memory, False, False, 0, busy, words) for operand in format.streams]
    if machine.engines[format.engine].template is Template.SYSTOLIC:
        # Every product is written to its sum, and all but the first of a sum are added to what it was.
        added = words if reads_destination(format, operation) else words - results
        read = mma_read(machine)
        found.append(_Access(to.name, to.memory, False, True, read, read + busy, added))
        found.append(_Access(to.name, to.memory, True, True, complete - busy, complete, words))
    else:
        # A result is there when the last word that it depends on was read.
        first = words // results - 1
        found.append(_Access(to.name, to.memory, True, False, complete - busy + first, complete, results))
    return [access for access in found if access.memory in machine.memories and access.words]


def _add(found: dict[str, dict[str, int]], accesses: Sequence[_Access], others: Sequence[_Access]) -> None:
    """The cycles in which words of two buffers are wanted through one port."""
    for one in accesses:
        for other in others:
            if one.buffer == other.buffer or one.memory != other.memory or one.is_write != other.is_write:
                continue
            cycles = min(one.end, other.end) - max(one.begin, other.begin)
            if cycles > 0:
                met = _met(one, other, cycles)
                for buffer, beside in ((one.buffer, other.buffer), (other.buffer, one.buffer)):
                    of_buffer = found.setdefault(buffer, {})
                    of_buffer[beside] = of_buffer.get(beside, 0) + met


def _met(one: _Access, other: _Access, cycles: int) -> int:
    """In how many of the `cycles` that two accesses have in common both take a word, if chance spreads the words.

    An access that always waits for another goes on after these cycles: until the other ends, its words are in the way.
    """
    if one.is_first or other.is_first:
        first = one if one.is_first else other
        return (first.end - max(one.begin, other.begin)) * first.words // (first.end - first.begin)
    return cycles * one.words * other.words // ((one.end - one.begin) * (other.end - other.begin))
