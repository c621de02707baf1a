"""What ordering knows of the operations of a tile program: which must come after which, and how long each takes.

An operation comes after earlier ones that touch the same words. Two operations on a common word keep their order
unless both only read it. This holds before addresses are chosen: two buffers without a fixed offset have no word in
common.

How long an operation takes if nothing else is in its way is an estimate, from the timing contract: ports are free, and
DRAM is the reference memory of docs/microarchitecture.md. The cycle model of the simulator says how long a program
really takes.

A load should start neither so late that its reader waits, nor so early that it fills the memory. All other engines are
taken to run as fast as they can, with every load at once. That gives the cycle in which each load's words are needed.
Backwards from there, one load before the other, it gives the latest start of each: its engine takes one after the
other, and so do the beats of all engines on one AXI port. Where DMA is slower than the rest, the latest starts pile up
towards the front, and loads run ahead as far as memory allows.

Example: three loads of 100 cycles, needed in cycles 500, 520 and 900, must start by 320, 420 and 800. If another
engine has the first, on the same port, and 60 of its cycles are beats, it must start by 360; on a port of its own, by
400.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.kernels.meetings import FULL, find_meetings
from tilewright.compiler.tile.accesses import (
    Accesses,
    Integers,
    dense_region,
    engine_numbers,
    program_accesses,
    reads_destination,
)
from tilewright.compiler.tile.program import TileOperation, TileProgram, forms
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.dma import dram_period
from tilewright.isa.templates.table import facet_of
from tilewright.isa.templates.work import Task, Work

NOBODY = -1
"""The space of what nobody writes, which orders nothing."""

MEETINGS_FOR_EACH = 4
"""For so many meetings of each access there is room at first; most have one or two."""

KNOWN = 1 << 14
"""So many answers about pairs of forms are remembered."""


class Lists(NamedTuple):
    """Numbers of several owners, as kernels take them: those of an owner begin at `begins[owner]`."""

    begins: Integers
    values: Integers

    @staticmethod
    def of(lists: Sequence[Sequence[int]]) -> Lists:
        begins = np.cumsum([0, *map(len, lists)])
        return Lists(begins, np.fromiter(chain.from_iterable(lists), np.int64))

    @property
    def owners(self) -> Integers:
        """The owner of each value."""
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))


@dataclass(frozen=True)
class Dependences:
    """For each operation, earlier ones by index; what follows from others may be missing.

    `completed`: they must have completed before it starts. `started`: they must only have started before it, since
    their engine is its own and keeps the order of what they do.
    """

    completed: tuple[tuple[int, ...], ...]
    started: tuple[tuple[int, ...], ...]

    @cached_property
    def after_end(self) -> Lists:
        """For each operation, those before which it must have completed."""
        return Lists.of(_inverse(self.completed))

    @cached_property
    def after_start(self) -> Lists:
        """For each operation, those before which it must have started."""
        return Lists.of(_inverse(self.started))


def dependences(program: TileProgram) -> Dependences:
    """The dependences of all operations, from the words that they touch."""
    count = len(program.operations)
    pairs = np.unique(_meetings(program, program.of_order(program_accesses)))  # sorted, each once
    pairs = pairs[~np.isin(pairs, pairs[pairs % 2 == 0] + 1)]  # who must have completed has started
    later, earlier = np.divmod(pairs // 2, max(count, 1))
    starts = pairs % 2 == 1
    return Dependences(*(_of_each(later[some], earlier[some], count) for some in (~starts, starts)))


def _meetings(program: TileProgram, accesses: Accesses) -> Integers:
    """A number for each pair of operations that touch a common word, as `find_meetings` has them."""
    regions = [dense_region(buffer) for buffer in program.buffers.values()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in regions))}
    of_buffer = np.array([(numbers[name], offset) for name, offset in regions], np.int64).reshape(-1, 2)
    space, offset = of_buffer[accesses.buffer].T
    is_written = np.zeros(len(numbers), np.bool_)
    is_written[space[accesses.is_write]] = True
    space = np.where(is_written[space], space, NOBODY)
    lists = (2 * space + accesses.is_write)[space != NOBODY]
    slots = np.cumsum(np.concatenate([[0], np.bincount(lists, minlength=2 * len(numbers))]))
    engine = engine_numbers(program)
    room = MEETINGS_FOR_EACH * len(space) + 1
    while True:
        live, known, found = np.zeros(len(space) + 1, np.int64), np.full((KNOWN, 4), -1), np.zeros(room, np.int64)
        pairs = find_meetings(
            accesses.begins,
            engine,
            accesses.operation,
            space,
            accesses.first + offset,
            accesses.form,
            accesses.is_write,
            *accesses.forms,
            slots,
            live,
            np.zeros(2 * len(numbers), np.int64),
            known,
            found,
        )
        if pairs != FULL:
            return found[:pairs]
        room *= 4


def _of_each(owners: Integers, values: Integers, count: int) -> tuple[tuple[int, ...], ...]:
    """The values of each of so many owners, who are in order."""
    ends, listed = np.searchsorted(owners, np.arange(count + 1)).tolist(), values.tolist()
    return tuple(tuple(listed[begin:end]) for begin, end in pairwise(ends))


def _inverse(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each operation, those that name it."""
    after: list[list[int]] = [[] for _ in before]
    for index, earlier in enumerate(before):
        for each in earlier:
            after[each].append(index)
    return after


# -- how long operations take, and when loads should start -------------------------------------------------------------


def durations(program: TileProgram) -> list[Work]:
    """The work of every operation, in program order: how long it is busy, and until when it is complete."""
    machine, known = program.machine, dict[tuple[int, int], Work]()  # by form and place
    facets = {name: (format, facet_of(format.engine.template)) for name, format in machine.formats.items()}
    period = dram_period(machine)
    found = []
    for operation, form in zip(program.operations, program.of_each(forms), strict=True):
        format, facet = facets[operation.mnemonic]
        place = 0
        if format.in_dram is not None:
            base = operation.bases[format.in_dram.name]
            place = (base.offset + (program.buffers[base.buffer].offset or 0)) % period
        work = known.get((form, place))
        if work is None:
            work = known[form, place] = facet.work(machine, _task(format, operation, place))
        found.append(work)
    return found


def _task(format: InstructionFormat, operation: TileOperation, place: int) -> Task:
    fields, outside = operation.fields, format.in_dram
    trips = tuple([fields.get(f"trip.{loop.name}", 1) for loop in format.loops])
    strides = () if outside is None else tuple([fields.get(f"{outside.name}.{loop.name}", 0) for loop in format.loops])
    return Task(format, trips, reads_destination(format, operation), place, strides)


EARLY_ROUND_TRIPS = 8
"""A load starts earlier than it must by so many accesses to DRAM: room for what the plan does not know."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`loads` as their words are needed; by operation, its planned start, and of a load the first cycle for it."""

    loads: tuple[int, ...]
    starts: Sequence[int]
    from_cycle: Sequence[int]


def fills(engine: Engine) -> bool:
    """Whether an engine fills memories from DRAM: its operations, the loads, may change their order."""
    return DRAM in engine.reads


def plan_loads(
    engines: Sequence[Engine], durations: Sequence[Work], before: Dependences, round_trip: int
) -> LoadPlan:  # fmt: skip
    """The plan for operations in program order; `round_trip` is the time of one access to DRAM."""
    starts = starts_in_order(engines, durations, before)
    needed = _needed(engines, starts, before)
    loads = sorted((i for i, engine in enumerate(engines) if fills(engine)), key=lambda i: (needed[i], i))
    from_cycle = [0] * len(engines)
    latest, of_port = dict.fromkeys(engines, NEVER), defaultdict[int, int](lambda: NEVER)
    for index in reversed(loads):
        if needed[index] == NEVER:  # nobody reads it, and what stands behind it may wait for its turn
            continue
        engine, taken = engines[index], durations[index]
        start = min(latest[engine], needed[index] - round_trip) - taken.busy
        latest[engine] = of_port[taken.port] = min(start, of_port[taken.port] - taken.read_beats)
        from_cycle[index] = latest[engine] - EARLY_ROUND_TRIPS * round_trip
    return LoadPlan(tuple(loads), starts, from_cycle)


def starts_in_order(engines: Sequence[Engine], durations: Sequence[Work], before: Dependences) -> list[int]:
    """The cycle in which each operation starts if loads take no turns and memories have no end."""
    free = dict.fromkeys(engines, 0)
    starts, ends = [0] * len(engines), [0] * len(engines)
    for index, engine in enumerate(engines):
        ready = max((ends[earlier] for earlier in before.completed[index]), default=0)
        starts[index] = ready if fills(engine) else max(ready, free[engine])
        free[engine] = starts[index] + durations[index].busy
        ends[index] = starts[index] + durations[index].complete
    return starts


def _needed(engines: Sequence[Engine], starts: Sequence[int], before: Dependences) -> list[int]:
    """The cycle in which an operation's words are first needed by one of another engine, also by way of other loads."""
    needed = [NEVER if fills(engine) else start for engine, start in zip(engines, starts, strict=True)]
    for index in reversed(range(len(engines))):
        for earlier in (*before.completed[index], *before.started[index]):
            if fills(engines[earlier]):
                needed[earlier] = min(needed[earlier], needed[index])
    return needed
