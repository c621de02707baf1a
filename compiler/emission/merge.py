"""Orders of the operations of several layers, each worked out by stepping through the machine without its loads.

`one_by_one` leaves the operations as they are. `balanced`, `front_first` and `row_by_row` mix the tiles of layers
behind each other. Loads come with the operation that needs them, as soon as they can; the scheduler moves them ahead.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.emission.ahead import Mix
from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.load_plan import NEVER, fills
from tilewright.compiler.emission.room import Residents, Room
from tilewright.isa.machine.engine import Dma, Engine
from tilewright.isa.templates.work import Work

LAYERS_BESIDE = 2
"""So many layers behind the one in front may be begun."""


@dataclass(frozen=True, slots=True)
class Section:
    """Some layers of a program: the operations in `span`, by index.

    `layers`, `engines`, `durations` and `before` are those of all operations, and `in_order` is the start of each if
    one layer follows the other. `fronts`: for each layer of the section, whether others may be begun beside it.
    """

    layers: Sequence[int]
    engines: Sequence[Engine]
    durations: Sequence[Work]
    before: Dependences
    residents: Residents
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


@dataclass(slots=True)
class _Step:
    """An operation of another engine than load, or the last loads of a layer.

    `all`: the loads that stand right before it, and itself; `reads`: those of these loads that it comes after. `open`:
    how many operations of other steps must still start before it. `progress`: the share of its layer's work on its
    engine that comes before it.
    """

    operation: int
    all: tuple[int, ...]
    reads: tuple[int, ...]
    open: int = 0
    progress: float = 0


Steps = deque[_Step]


def one_by_one(section: Section) -> Merged:
    """Each engine keeps the order of its operations."""
    state, queues = _State(section), dict[Engine, Steps]()
    for steps in state.layers:
        for step in steps:
            queues.setdefault(section.engines[step.operation], deque()).append(step)
    own = {engine: (queue,) for engine, queue in queues.items()}
    state.run(lambda engine: own.get(engine, ()))
    return state.merged


def balanced(section: Section) -> Merged:
    """The layer in front goes first, unless an engine would stand still: then that goes first which gives it most work.

    Example, a layer of products of which the vector engine has little to do, and behind it one of which it has much: as
    soon as the vector engine has nothing left, the array works for the second, and then goes on with the first.
    """
    state = _State(section)
    by_layer = [_by_engine(steps, section) for steps in state.layers]
    gives, front = _gives(by_layer, section), 0
    while not state.is_done:
        while not any(by_layer[front].values()):
            front += 1
        beside = LAYERS_BESIDE if section.fronts[front] else 0
        found = [
            (state.start(queue[0]), at, engine, queue)
            for at, own in enumerate(by_layer[front : front + beside + 1], front)
            for engine, queue in own.items()
            if queue and not queue[0].open
        ]
        soonest = {engine: min(start for start, _, own, _ in found if own is engine) for _, _, engine, _ in found}
        best, taken = (NEVER, 0.0), Steps()
        for start, at, engine, queue in found:
            others = [other for other in gives[at] if other is not engine]
            stands_still = any(soonest.get(other, NEVER) > start for other in others)
            key = start, -gives[at][engine] if stands_still and engine in gives[at] else float(at)
            if key < best and state.has_room(queue[0], start):
                best, taken = key, queue
        state.take(taken.popleft(), best[0])
    return state.merged


def _gives(by_layer: Sequence[Mapping[Engine, Steps]], section: Section) -> list[dict[Engine, float]]:
    """For each layer and computing engine, the cycles of work for others that each of its own cycles there gives.

    Layers behind it of which the engine has nothing to do count as well.
    """
    busy = [
        {
            engine: sum(section.durations[step.operation].busy for step in queue)
            for engine, queue in own.items()
            if not isinstance(engine.settings, Dma)
        }
        for own in by_layer
    ]
    gives: list[dict[Engine, float]] = []
    for at, own in enumerate(busy):
        found = {}
        for engine, cycles in own.items():
            others = sum(own.values()) - cycles
            for behind in busy[at + 1 :]:
                if engine in behind:
                    break
                others += sum(behind.values())
            found[engine] = others / max(1, cycles)
        gives.append(found)
    return gives


def row_by_row(section: Section) -> Merged:
    """All layers that may run beside each other go on together: each engine takes what has come least far."""
    state = _State(section)
    by_layer = [_by_engine(steps, section) for steps in state.layers]

    front = 0  # the first layer that is not done

    def queues(engine: Engine) -> Iterable[Steps]:
        nonlocal front
        while not any(by_layer[front].values()):
            front += 1
        beside = LAYERS_BESIDE if section.fronts[front] else 0
        return [own[engine] for own in by_layer[front : front + beside + 1] if engine in own]

    state.run(queues)
    return state.merged


def front_first(section: Section) -> Merged:
    """The layer in front goes first; others take an engine for which it has nothing to do.

    An operation of a layer behind needs all that it reads, and words that stay free until its turn.
    """
    state = _State(section)
    streams = [_Stream.of(steps, section.engines) for steps in state.layers]
    for front, first in enumerate(streams):
        beside = streams[front : front + (LAYERS_BESIDE if section.fronts[front] else 0) + 1]
        while not first.is_done:
            start, stream = _best(beside, state)
            stream.late = start - section.in_order[stream.step.operation]
            state.take(stream.step, start)
            stream.at += 1
    return state.merged


def _by_engine(steps: Sequence[_Step], section: Section) -> dict[Engine, Steps]:
    """The steps of a layer by their engine, with the progress of each."""
    queues: dict[Engine, Steps] = {}
    for step in steps:
        queues.setdefault(section.engines[step.operation], deque()).append(step)
    for queue in queues.values():
        done, all_of_it = 0, sum(section.durations[step.operation].busy for step in queue)
        for step in queue:
            step.progress = done / max(1, all_of_it)
            done += section.durations[step.operation].busy
    return queues


class _State:
    """The machine while operations start one after the other."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self._end = section.begin  # the last start
        self._room = Room(section.residents)
        self._room.begin_at(section.span.start)
        self._order: list[int] = []
        self._starts: dict[int, int] = {}
        self._ready = [0] * len(section.engines)  # when what an operation comes after lets it start
        self._after_end, self._after_start = section.before.after_end, section.before.after_start
        self._engines = sorted({*section.engines}, key=lambda engine: engine.number)
        self._free = dict.fromkeys(self._engines, section.begin)
        self.layers = _steps(section)
        """The steps of each layer, in the order of layers."""
        self._steps_after = self._opened()

    @property
    def merged(self) -> Merged:
        return Merged(self._order, self._starts)

    @property
    def is_done(self) -> bool:
        return len(self._order) == len(self.section.span)

    def _opened(self) -> Mapping[int, list[_Step]]:
        """For each operation, the other steps that come after it."""
        before, first = self.section.before, self.section.span.start
        after: dict[int, list[_Step]] = defaultdict(list)
        for step in (step for steps in self.layers for step in steps):
            for index in step.all:
                for earlier in (*before.completed[index], *before.started[index]):
                    if earlier >= first and earlier not in step.all:
                        step.open += 1
                        after[earlier].append(step)
        return after

    def run(self, queues: Callable[[Engine], Iterable[Steps]]) -> None:
        """Start all steps: of the first ones of each engine's queues the one that can start first.

        Of those that can start in the same cycle, the one that has come least far.
        """
        while not self.is_done:
            best, taken = (NEVER, 0.0), Steps()
            for queue in (queue for engine in self._engines for queue in queues(engine)):
                if queue and not queue[0].open:
                    step = queue[0]
                    at = self.start(step), step.progress
                    if at < best and self.has_room(step, at[0]):
                        best, taken = at, queue
            self.take(taken.popleft(), best[0])

    def start(self, step: _Step) -> int:
        """When a step can start; its loads have started as soon as they could."""
        durations, engine = self.section.durations, self.section.engines[step.operation]
        loaded = max((self._ready[load] + durations[load].complete for load in step.reads), default=0)
        return max(self._end, self._free[engine], self._ready[step.operation], loaded)

    def has_room(self, step: _Step, start: int) -> bool:
        """Whether it is a step's turn, or there are words for what it brings on chip."""
        fresh = list(dict.fromkeys(buffer for index in step.all for buffer in self._room.fresh(index)))
        ready = self._room.ready(step.all[0], fresh, {}) if fresh else 0
        return step.all[0] == self._room.turn or (ready is not None and ready <= start)

    def take(self, step: _Step, start: int) -> None:
        """Start a step, and its loads before it."""
        for index in step.all[:-1]:
            self._begin(index, self._ready[index])
        self._begin(step.operation, start)
        self._end = start

    def _begin(self, index: int, start: int) -> None:
        duration, engine = self.section.durations[index], self.section.engines[index]
        end = start + duration.complete
        self._order.append(index)
        self._starts[index] = start
        if not fills(engine):
            self._free[engine] = start + duration.busy
        self._room.take(index, max(start, self._end), max(end, self._end))
        for after, cycle in ((self._after_end, end), (self._after_start, start)):
            for later in after[index]:
                self._ready[later] = max(self._ready[later], cycle)
        for step in self._steps_after.get(index, ()):
            step.open -= 1


@dataclass(slots=True)
class _Stream:
    """The steps of a layer; `next_of` has, for each step, the next operation of each engine from there on."""

    steps: Sequence[_Step]
    next_of: Sequence[Mapping[Engine, int]]
    at: int = 0
    late: int | None = None  # cycles by which the last step came later than in the order of layers

    @staticmethod
    def of(steps: Sequence[_Step], engines: Sequence[Engine]) -> _Stream:
        next_of: list[Mapping[Engine, int]] = []
        following: dict[Engine, int] = {}
        for step in reversed(steps):
            following = {**following, engines[step.operation]: step.operation}
            next_of.append(following)
        return _Stream(steps, next_of[::-1])

    @property
    def is_done(self) -> bool:
        return self.at == len(self.steps)

    @property
    def step(self) -> _Step:
        """The one whose turn it is."""
        return self.steps[self.at]


def _best(streams: Sequence[_Stream], state: _State) -> tuple[int, _Stream]:
    """When which stream goes on: the one in front, unless another can start before it and before it is wanted."""
    best = state.start(streams[0].step), streams[0]
    for position, stream in enumerate(streams[1:], 1):
        if stream.is_done or stream.step.open:
            continue
        start = state.start(stream.step)
        engine = state.section.engines[stream.step.operation]
        limit = min(best[0], _wanted(engine, streams[:position], state.section.in_order))
        if start < limit and state.has_room(stream.step, start):
            best = start, stream
    return best


def _wanted(engine: Engine, streams: Sequence[_Stream], in_order: Sequence[int]) -> int:
    """When layers in front will want an engine, as far as they are begun."""
    return min(
        (
            in_order[stream.next_of[stream.at][engine]] + stream.late
            for stream in streams
            if stream.late is not None and not stream.is_done and engine in stream.next_of[stream.at]
        ),
        default=NEVER,
    )


def _steps(section: Section) -> list[list[_Step]]:
    """The steps of each layer, in the order of layers."""
    operations: dict[int, list[int]] = defaultdict(list)
    for index in section.span:
        operations[section.layers[index]].append(index)
    return [_steps_of(operations[layer], section.engines, section.before) for layer in sorted(operations)]


def _steps_of(operations: Sequence[int], engines: Sequence[Engine], before: Dependences) -> list[_Step]:
    steps: list[_Step] = []
    together: list[int] = []
    for index in operations:
        together.append(index)
        if not fills(engines[index]) or index == operations[-1]:
            reads = tuple(load for load in together[:-1] if load in before.completed[index])
            steps.append(_Step(index, tuple(together), reads))
            together = []
    return steps


MERGES: Mapping[Mix, Callable[[Section], Merged]] = {
    Mix.BALANCED: balanced,
    Mix.FRONT_FIRST: front_first,
    Mix.ROW_BY_ROW: row_by_row,
}
"""What mixes layers in each way."""
