"""A machine that is stepped through without its loads: which operations of some layers start next, and when.

Loads come with the operation that needs them, as soon as they can. The steps are compiled (`kernels/stepping.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.dependences import Dependences, fills
from tilewright.compiler.emission.room import BuffersOnChip, FreeWords, RoomColumns
from tilewright.compiler.tile.accesses import Integers
from tilewright.isa.machine.engine import Engine
from tilewright.isa.templates.work import Work

NO_STEP = -1
"""The step of an operation of another section."""


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """Some layers of a program, one after the other: the operations in `span`, by index.

    `layers`, `engines`, `durations` and `before` are those of all operations, and `in_order` is the start of each if
    one layer follows the other. `fronts`: for each layer of the section, whether others may be begun beside it.
    """

    layers: Sequence[int]
    engines: Sequence[Engine]
    durations: Sequence[Work]
    before: Dependences
    residents: BuffersOnChip
    in_order: Sequence[int]
    span: range
    fronts: Sequence[bool]

    @property
    def begin(self) -> int:
        """The cycle in which the section begins."""
        return max(self.in_order[: self.span.start], default=0)


@dataclass(frozen=True, slots=True)
class Merged:
    """Operations in an order, and the cycle in which each of them starts."""

    order: Sequence[int]
    starts: Mapping[int, int]


class SteppingColumns(NamedTuple):
    """A machine while operations of a section start, as `kernels.stepping` steps it; all are numbers.

    A step is an operation of an engine that does not load, with the loads that stand right before it, or the last loads
    of a layer: from its `first` operation to its `last`. `waits_for`: how many times what is to start before it is
    named by operations of it.

    Of each operation: its `step_of`, `engine`, for how many cycles that is `busy`, and when it is `complete`; whether
    it is a load that the last operation of its step reads (`is_read`); from when on it is `ready` to start, and its
    `starts`. `after_end` from `after_end_begins[operation]` on are those that wait for its end, `after_start` those
    that wait for its start.

    Of each engine: whether it `is_load`, and when it is `free`. At last the `room` in memories, no words that are
    reserved, the last start (`now`), and those that have started: the first `done` of `order`.
    """

    room: RoomColumns
    first: Integers
    last: Integers
    waits_for: Integers
    step_of: Integers
    engine: Integers
    busy: Integers
    complete: Integers
    is_read: NDArray[np.bool_]
    ready: Integers
    starts: Integers
    after_end_begins: Integers
    after_end: Integers
    after_start_begins: Integers
    after_start: Integers
    is_load: NDArray[np.bool_]
    free: Integers
    none_reserved: Integers
    now: Integers
    order: Integers
    done: Integers


class Queues(NamedTuple):
    """Steps in queues, one behind the other: those of a queue from `heads[queue]` to before `begins[queue + 1]`."""

    steps: Integers
    begins: Integers
    heads: Integers

    @staticmethod
    def of(queue_of: Integers, count: int) -> Queues:
        """So many queues: each has its steps in the order of the program. `queue_of`: the queue of each step."""
        begins = np.cumsum(np.concatenate([[0], np.bincount(queue_of, minlength=count)]))
        return Queues(np.argsort(queue_of, kind="stable"), begins, begins[:-1].copy())


class Stepping:
    """The machine before the first operation of a section starts, and its steps."""

    def __init__(self, section: LayerSpan) -> None:
        self.section = section
        span, count, before = section.span, len(section.engines), section.before
        engines = {engine.number: engine for engine in section.engines}
        is_load = np.zeros(max(engines) + 1, np.bool_)
        is_load[[number for number, engine in engines.items() if fills(engine)]] = True
        engine, busy, complete = (np.zeros(count, np.int64) for _ in range(3))
        own = slice(span.start, span.stop)
        engine[own] = [each.number for each in section.engines[own]]
        busy[own] = [each.busy for each in section.durations[own]]
        complete[own] = [each.complete for each in section.durations[own]]
        layers = np.array(section.layers[own], np.int64)
        ends_layer = np.append(layers[1:] != layers[:-1], [True])
        last = np.flatnonzero(~is_load[engine[own]] | ends_layer) + span.start
        first = np.concatenate([[span.start], last[:-1] + 1])
        step_of = np.full(count, NO_STEP)
        step_of[own] = np.repeat(np.arange(len(last)), last + 1 - first)
        room = FreeWords(section.residents)
        room.begin_at(span.start)
        self.columns = SteppingColumns(
            room=room.columns,
            first=first,
            last=last,
            waits_for=_waits_for(before, step_of, len(last)),
            step_of=step_of,
            engine=engine,
            busy=busy,
            complete=complete,
            is_read=_is_read(before, step_of, last),
            ready=np.zeros(count, np.int64),
            starts=np.zeros(count, np.int64),
            after_end_begins=before.after_end.begins,
            after_end=before.after_end.values,
            after_start_begins=before.after_start.begins,
            after_start=before.after_start.values,
            is_load=is_load,
            free=np.full(len(is_load), section.begin),
            none_reserved=np.zeros(len(room.columns.depth), np.int64),
            now=np.array([section.begin]),
            order=np.zeros(len(span), np.int64),
            done=np.zeros(1, np.int64),
        )
        self.layer_of: Integers = np.unique(layers[last - span.start], return_inverse=True)[1]
        """The layer of each step, by its place in the section."""
        self.engine_of: Integers = engine[last]
        """The engine of each step, as its number."""
        self.engines: Mapping[int, Engine] = engines

    def behind(self, beside: int) -> Integers:
        """For each layer, how many behind it may be begun beside it: so many, if any."""
        return np.where(self.section.fronts, beside, 0)

    def merged(self, is_done: bool) -> Merged:
        """The order in which operations started; `is_done`: all have."""
        assert is_done, "the operation whose turn it is can always start"
        order = self.columns.order
        return Merged(order.tolist(), dict(zip(order.tolist(), self.columns.starts[order].tolist(), strict=True)))


def _waits_for(before: Dependences, step_of: Integers, steps: int) -> Integers:
    """For each step, how often its operations name one of another step of the section that comes before them."""
    found = np.zeros(steps, np.int64)
    for after in (before.after_end, before.after_start):
        earlier, later = step_of[after.owners], step_of[after.values]
        counted = later[(earlier != later) & (earlier != NO_STEP) & (later != NO_STEP)]
        found += np.bincount(counted, minlength=steps)
    return found


def _is_read(before: Dependences, step_of: Integers, last: Integers) -> NDArray[np.bool_]:
    """Whether an operation is a load that the last operation of its own step must wait for."""
    found = np.zeros(len(step_of), np.bool_)
    earlier, later = before.after_end.owners, before.after_end.values
    own = step_of[later] != NO_STEP
    earlier, later = earlier[own], later[own]
    found[earlier[(step_of[earlier] == step_of[later]) & (last[step_of[later]] == later)]] = True
    return found
