"""The order of operations: each load comes just in time, and every engine finds its next operation in its queue.

The machine is stepped through in time, operation by operation: how long each takes (durations), what must have
completed before it (dependences), how many words are free (room), and when each load should start (load plan).
Operations of the array, the vector engine and the store engine keep their order. The program's order is that of the
starts: whatever stands before an operation starts no later than it, so no full queue keeps it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Ahead
from tilewright.compiler.emission.dependences import (
    Dependences,
    Lists,
    LoadPlan,
    dependences,
    durations,
    fills,
    plan_loads,
)
from tilewright.compiler.emission.divide import divided, spread
from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.kernels.schedule import find_order
from tilewright.compiler.emission.overlap import overlapped
from tilewright.compiler.emission.room import BuffersOnChip, FreeWords
from tilewright.compiler.templates.table import facet_of
from tilewright.compiler.tile.accesses import Integers, engine_numbers
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.engine import Engine
from tilewright.isa.templates.work import Work
from tilewright.isa.timing import dma_round_trip

NONE_AHEAD = "no load comes earlier than its tile{}, because the memories are too full; engines may wait for DRAM"
"""The remark about a program whose order stays as it is, or that of some layers."""


def schedule(
    program: TileProgram,
    ahead: Ahead = EVERYTHING_AHEAD,
    in_order: Collection[str] = frozenset(),
    arrays: int | None = None,
) -> TileProgram:
    """The same operations, each on one of the engines that can do it, in the order in which they can start.

    Deterministic.
    The sequential meaning is kept: operations that touch a common word keep their order, unless both only read it. At
    no place more words are in use than a memory has. With no load `ahead` the order stays, and a remark says so.
    `in_order`: layers whose operations all wait for their turn, and that none of others passes; a remark names them.
    `arrays`: so many arrays at the most share what several can compute.
    """
    program = divided(spread(program, arrays), ahead.idle)
    if ahead.loads is not None and ahead.loads <= 0:
        return program.with_remarks({"order": NONE_AHEAD.format("")})
    work = _Work.of(program, ahead, in_order)
    found = _ordered(work)
    order = found.by_start
    layers = [operation.layer for operation in program.operations]
    beside = overlapped(
        layers,
        work.engines,
        work.durations,
        work.before,
        work.residents,
        found.planned,
        work.kept,
        ahead.mix,
        _in_pieces(program),
    )
    if beside is not None:
        other = _ordered(work.in_order(beside.order))
        if other.end < found.end - beside.worth:
            order = [beside.order[index] for index in other.by_start]
    if in_order:
        program = program.with_remarks({"order": NONE_AHEAD.format(" in " + " and ".join(sorted(in_order)))})
    return program.in_order(order)


def _in_pieces(program: TileProgram) -> frozenset[int]:
    """The numbers of layers that are pieces of one: their names are the same."""
    counts = Counter(layer.name for layer in program.layers)
    return frozenset(number for number, layer in enumerate(program.layers) if counts[layer.name] > 1)


@dataclass(frozen=True, slots=True)
class _Work:
    """A program, and for each of its operations the engine, the duration, and what must come before.

    `kept`: the layers in which operations wait for their turn.
    """

    program: TileProgram
    ahead: Ahead
    engines: Sequence[Engine]
    durations: Sequence[Work]
    before: Dependences
    residents: BuffersOnChip
    kept: frozenset[int]

    @staticmethod
    def of(program: TileProgram, ahead: Ahead, in_order: Collection[str]) -> _Work:
        kept = frozenset(number for number, layer in enumerate(program.layers) if layer.name in in_order)
        residents = BuffersOnChip(program, ahead.eighths)
        of_engine, before = program.of_each(engines), program.of_order(dependences)
        return _Work(program, ahead, of_engine, program.of_each(durations), before, residents, kept)

    def in_order(self, order: Sequence[int]) -> _Work:
        """The same in another order that keeps what must come before what."""
        place = {index: at for at, index in enumerate(order)}

        def moved(before: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
            return tuple(tuple(place[earlier] for earlier in before[index]) for index in order)

        program = self.program.in_order(order)
        return _Work(
            program,
            self.ahead,
            program.of_each(engines),
            program.of_each(durations),
            Dependences(moved(self.before.completed), moved(self.before.started)),
            BuffersOnChip(program, self.ahead.eighths),
            self.kept,
        )

    def passable(self) -> list[int]:
        """For each operation, the first from there on that nothing behind may pass, and that passes nothing."""
        layers = [operation.layer for operation in self.program.operations]
        found = [len(layers)] * (len(layers) + 1)
        for index in reversed(range(len(layers))):
            found[index] = index if layers[index] in self.kept else found[index + 1]
        return found


class WorkColumns(NamedTuple):
    """Operations and engines while operations start, as `kernels.schedule` steps them; both are numbers.

    Of each operation: its `engine`, for how many cycles that is `busy` with it and when it is `complete`, and how many
    `beats` it reads; whether it `comes_after` any; its planned start (`starts`), and of a load the first cycle for it
    (`from_cycle`); the first operation from there on that nothing behind may pass (`passable`); how many operations are
    `open` before it, and when what it comes after lets it start (`ready`). `after_end` from
    `after_end_begins[operation]` on are those that wait for its end, `after_start` those that wait for its start.

    Of each engine: its `queue` from `heads[engine]` to before `queue_begins[engine + 1]`; when it is `free`; how many
    `contexts` it has (0: no limit), when those `ends`, and how many it has begun (`newest`); when it can start its next
    operation, and which; and the AXI `port` of a DMA engine.

    At last whether an engine fills memories (`is_load`), how many `loads_ahead` of their turn may start, and those that
    did, `early_count` in number; by how many cycles the last operation of another engine came later than planned
    (`late`); and by memory, the words that are left to loads that wait (`reserved`).
    """

    engine: Integers
    busy: Integers
    complete: Integers
    beats: Integers
    comes_after: NDArray[np.bool_]
    starts: Integers
    from_cycle: Integers
    passable: Integers
    open: Integers
    ready: Integers
    after_end_begins: Integers
    after_end: Integers
    after_start_begins: Integers
    after_start: Integers
    queue: Integers
    queue_begins: Integers
    heads: Integers
    free: Integers
    contexts: Integers
    ends: Integers
    newest: Integers
    next_start: Integers
    next_operation: Integers
    port: Integers
    is_load: NDArray[np.bool_]
    loads_ahead: int
    early: Integers
    early_count: Integers
    late: Integers
    reserved: Integers
    none_reserved: Integers


@dataclass(frozen=True, slots=True)
class _PlannedOrder:
    """An order of the operations, when the last of them completes, and when each was planned to start."""

    by_start: list[int]
    end: int
    planned: Sequence[int]


def _ordered(work: _Work) -> _PlannedOrder:
    """All operations by the cycle of their start."""
    plan = plan_loads(work.engines, work.durations, work.before, dma_round_trip(work.program.machine))
    order = np.zeros(len(work.engines), np.int64)
    end = find_order(_columns(work, plan), FreeWords(work.residents).columns, order)
    assert end < NEVER, "the operation whose turn it is can always start"
    return _PlannedOrder(order.tolist(), int(end), plan.starts)


def _columns(work: _Work, plan: LoadPlan) -> WorkColumns:
    """The state of the machine before the first operation."""
    before, count, memories = work.before, len(work.engines), len(work.program.machine.memories)
    engine = engine_numbers(work.program)
    busy, complete = np.array([(each.busy, each.complete) for each in work.durations], np.int64).reshape(-1, 2).T.copy()
    opened = [len(c) + len(s) for c, s in zip(before.completed, before.started, strict=True)]
    machine_engines = tuple(work.program.machine.engines.values())
    contexts = [facet_of(of.template).most_under_way(of) for of in machine_engines]
    waiting = [
        [index for index in plan.loads if engine[index] == of.number]
        if fills(of)
        else np.flatnonzero(engine == of.number).tolist()
        for of in machine_engines
    ]
    queues = Lists.of(waiting)
    return WorkColumns(
        engine=engine,
        busy=busy,
        complete=complete,
        beats=np.array([each.read_beats for each in work.durations], np.int64),
        comes_after=np.array(opened, np.int64) > 0,
        starts=np.array(plan.starts, np.int64),
        from_cycle=np.array(plan.from_cycle, np.int64),
        passable=np.array(work.passable(), np.int64),
        open=np.array(opened, np.int64),
        ready=np.zeros(count, np.int64),
        after_end_begins=before.after_end.begins,
        after_end=before.after_end.values,
        after_start_begins=before.after_start.begins,
        after_start=before.after_start.values,
        queue=queues.values,
        queue_begins=queues.begins,
        heads=queues.begins[:-1].copy(),
        free=np.zeros(len(machine_engines), np.int64),
        contexts=np.array(contexts, np.int64),
        ends=np.zeros((len(machine_engines), max(contexts)), np.int64),
        newest=np.zeros(len(machine_engines), np.int64),
        next_start=np.zeros(len(machine_engines), np.int64),
        next_operation=np.zeros(len(machine_engines), np.int64),
        port=np.array([of.dma.port if fills(of) else 0 for of in machine_engines], np.int64),
        is_load=np.array([fills(of) for of in machine_engines], np.bool_),
        loads_ahead=count if work.ahead.loads is None else work.ahead.loads,
        early=np.zeros(count, np.int64),
        early_count=np.zeros(1, np.int64),
        late=np.zeros(1, np.int64),
        reserved=np.zeros(memories, np.int64),
        none_reserved=np.zeros(memories, np.int64),
    )
