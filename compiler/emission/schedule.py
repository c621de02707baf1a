"""The order of operations: each load comes just in time, and every engine finds its next operation in its queue.

The machine is stepped through in time, operation by operation: how long each takes (durations), what must have
completed before it (dependences), how many words are free (room), and when each load should start (load plan).
Operations of the array, the vector engine and the store engine keep their order. The program's order is that of the
starts: whatever stands before an operation starts no later than it, so no full queue keeps it back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Ahead
from tilewright.compiler.emission.dependences import Dependences, dependences
from tilewright.compiler.emission.durations import Duration, durations
from tilewright.compiler.emission.load_plan import LOAD, NEVER, plan_loads
from tilewright.compiler.emission.overlap import overlapped
from tilewright.compiler.emission.room import Residents, Room
from tilewright.compiler.tile.program import TileBuffer, TileProgram, engines
from tilewright.isa.machine.machine import ENGINES
from tilewright.isa.timing import dma_round_trip

NONE_AHEAD = "no load comes earlier than its tile{}, because the memories are too full; engines may wait for DRAM"
"""The remark about a program whose order stays as it is, or that of some layers."""

LOADS_COMPARED = 32
"""How many of the loads that are needed next may be chosen from, when the first of them cannot start yet."""


def schedule(
    program: TileProgram, ahead: Ahead = EVERYTHING_AHEAD, in_order: Collection[str] = frozenset()
) -> TileProgram:
    """The same operations in the order in which they can start; deterministic.

    The sequential meaning is kept: operations that touch a common word keep their order, unless both only read it. At
    no place more words are in use than a memory has. With no load `ahead` the order stays, and a remark says so.
    `in_order`: layers whose operations all wait for their turn, and that none of others passes; a remark names them.
    """
    if ahead.loads is not None and ahead.loads <= 0:
        return program.with_remarks({"order": NONE_AHEAD.format("")})
    work = _Work.of(program, ahead, in_order)
    found = _Scheduler(work)
    order = found.order()
    layers = [operation.layer for operation in program.operations]
    starts = found.plan.starts
    beside = overlapped(
        layers, work.engines, work.durations, work.before, work.residents, starts, work.kept, ahead.by_rows
    )
    if beside is not None:
        other = _Scheduler(work.in_order(beside.order))
        by_other = other.order()
        if other.end < found.end - beside.worth:
            order = [beside.order[index] for index in by_other]
    if in_order:
        program = program.with_remarks({"order": NONE_AHEAD.format(" in " + " and ".join(sorted(in_order)))})
    return program.in_order(order)


@dataclass(frozen=True, slots=True)
class _Work:
    """A program, and for each of its operations the engine, the duration, and what must come before.

    `kept`: the layers in which operations wait for their turn.
    """

    program: TileProgram
    ahead: Ahead
    engines: Sequence[str]
    durations: Sequence[Duration]
    before: Dependences
    residents: Residents
    kept: frozenset[int]

    @staticmethod
    def of(program: TileProgram, ahead: Ahead, in_order: Collection[str]) -> _Work:
        kept = frozenset(number for number, layer in enumerate(program.layers) if layer.name in in_order)
        residents = Residents(program, ahead.eighths)
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
            Residents(program, self.ahead.eighths),
            self.kept,
        )

    def passable(self) -> list[int]:
        """For each operation, the first from there on that nothing behind may pass, and that passes nothing."""
        layers = [operation.layer for operation in self.program.operations]
        found = [len(layers)] * (len(layers) + 1)
        for index in reversed(range(len(layers))):
            found[index] = index if layers[index] in self.kept else found[index + 1]
        return found


class _Scheduler:
    """The state of the machine while operations start one after the other."""

    def __init__(self, work: _Work) -> None:
        program, before = work.program, work.before
        count = len(program.operations)
        self.end = 0  # when the last operation so far completes
        self._engines, self._durations = work.engines, work.durations
        self._room = Room(work.residents)
        self._loads_ahead = count if work.ahead.loads is None else work.ahead.loads
        self._early: set[int] = set()  # loads that started before their turn
        self._passable = work.passable()
        self._open = [len(c) + len(s) for c, s in zip(before.completed, before.started, strict=True)]
        self._comes_after = [count > 0 for count in self._open]
        self._after_end, self._after_start = before.after_end, before.after_start
        self._ready = [0] * count  # when what an operation comes after lets it start
        self._free = dict.fromkeys(ENGINES, 0)
        self._ends = {engine: deque([0] * flight.contexts) for engine, flight in program.machine.flights.items()}
        self.plan = plan_loads(self._engines, self._durations, before, dma_round_trip(program.machine))
        self._late = 0  # cycles by which the last operation of another engine came later than planned
        self._waiting = {e: deque(i for i, engine in enumerate(self._engines) if engine == e) for e in ENGINES}
        self._waiting[LOAD] = deque(self.plan.loads)
        self._known: dict[str, tuple[int, int]] = {}  # by engine, what `_next` gives until something changes it

    def order(self) -> list[int]:
        """All operations, by the cycle of their start."""
        found: list[int] = []
        while len(found) < len(self._engines):
            start, index = min([self._next(engine) for engine in ENGINES])
            assert start < NEVER, "the operation whose turn it is can always start"
            self._start(index, start)
            found.append(index)
        return found

    def _next(self, engine: str) -> tuple[int, int]:
        """(cycle, operation) of an engine's next start, as far as it is known; NEVER if it is not."""
        if engine == LOAD:
            return self._next_load()
        found = self._known.get(engine)
        if found is None:
            found, may_change = self._head(engine)
            if not may_change:
                self._known[engine] = found
        return found

    def _head(self, engine: str) -> tuple[tuple[int, int], bool]:
        """The next start of an engine that keeps its order, and whether what others take and give back changes it."""
        if not self._waiting[engine]:
            return (NEVER, -1), False
        index = self._waiting[engine][0]
        if self._open[index]:
            return (NEVER, index), False
        if index != self._room.turn and not self._may_pass(index):
            return (NEVER, index), True
        fresh = self._room.fresh(index)
        return (self._earliest(index, fresh, {}), index), bool(fresh)

    def _next_load(self) -> tuple[int, int]:
        """The next load in the planned order; one that must wait is passed, but its words are left free."""
        best = NEVER, -1
        reserved: dict[str, int] = {}
        for index in self._candidates():
            fresh, is_its_turn = self._room.fresh(index), index == self._room.turn
            if not self._open[index] and (is_its_turn or self._may_pass(index)):
                can_start = self._earliest(index, fresh, {} if is_its_turn else reserved)
                wanted = max(can_start, self.plan.from_cycle[index] + self._late)
                best = min(best, (wanted, index))
                if can_start <= max(self._free[LOAD], self.plan.from_cycle[index] + self._late):
                    return best
            for buffer in fresh:
                reserved[buffer.place] = reserved.get(buffer.place, 0) + buffer.size
        return best

    def _may_pass(self, index: int) -> bool:
        """Whether an operation may start whose turn it is not."""
        if self._engines[index] == LOAD and len(self._early) >= self._loads_ahead:
            return False
        return index < self._passable[self._room.turn]

    def _candidates(self) -> Iterator[int]:
        """The load whose turn it is comes last, where it stands too far back: it can always start."""
        turn, is_among = self._room.turn, False
        for index in islice(self._waiting[LOAD], LOADS_COMPARED):
            is_among = is_among or index == turn
            yield index
        if not is_among and turn < len(self._engines) and self._engines[turn] == LOAD:
            yield turn

    def _earliest(self, index: int, fresh: Sequence[TileBuffer], reserved: Mapping[str, int]) -> int:
        room = self._room.ready(index, fresh, reserved) if fresh else 0
        return NEVER if room is None else max(self._free[self._engines[index]], self._ready[index], room)

    def _start(self, index: int, start: int) -> None:
        engine, duration = self._engines[index], self._durations[index]
        end = start + duration.complete
        self.end = max(self.end, end)
        self._waiting[engine].remove(index)
        self._known.pop(engine, None)
        self._free[engine] = start + duration.busy
        if engine in self._ends:
            self._ends[engine].append(end)
            self._free[engine] = max(self._free[engine], self._ends[engine].popleft())
        self._room.take(index, start, end)
        if engine == LOAD and self._loads_ahead < len(self._engines):
            self._early = {early for early in (*self._early, index) if early > self._room.turn}
        # A fill comes after nothing: it starts as soon as there are words for it.
        if engine != LOAD and self._comes_after[index]:
            self._late = start - self.plan.starts[index]
        for after, cycle in ((self._after_end, end), (self._after_start, start)):
            for later in after[index]:
                self._open[later] -= 1
                self._ready[later] = max(self._ready[later], cycle)
                self._known.pop(self._engines[later], None)
