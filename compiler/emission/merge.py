"""Orders of the operations of several layers, each worked out by stepping through the machine without its loads.

`one_by_one` leaves the operations as they are. `balanced`, `front_first` and `row_by_row` mix the tiles of layers
behind each other. Loads come with the operation that needs them, as soon as they can; the scheduler moves them ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.emission.ahead import Mix
from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.stepping import LayerSpan, Merged, ScheduleStep, Stepping, Steps
from tilewright.isa.machine.engine import Dma, Engine

LAYERS_BESIDE = 2
"""So many layers behind the one in front may be begun."""


def one_by_one(section: LayerSpan) -> Merged:
    """Each engine keeps the order of its operations."""
    state, queues = Stepping(section), dict[Engine, Steps]()
    for steps in state.layers:
        for step in steps:
            queues.setdefault(section.engines[step.operation], deque()).append(step)
    own = {engine: (queue,) for engine, queue in queues.items()}
    state.run(lambda engine: own.get(engine, ()))
    return state.merged


def balanced(section: LayerSpan) -> Merged:
    """The layer in front goes first, unless an engine would stand still: then that goes first which gives it most work.

    Example, a layer of products of which the vector engine has little to do, and behind it one of which it has much: as
    soon as the vector engine has nothing left, the array works for the second, and then goes on with the first.
    """
    state = Stepping(section)
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


def _gives(by_layer: Sequence[Mapping[Engine, Steps]], section: LayerSpan) -> list[dict[Engine, float]]:
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


def row_by_row(section: LayerSpan) -> Merged:
    """All layers that may run beside each other go on together: each engine takes what has come least far."""
    state = Stepping(section)
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


def front_first(section: LayerSpan) -> Merged:
    """The layer in front goes first; others take an engine for which it has nothing to do.

    An operation of a layer behind needs all that it reads, and words that stay free until its turn.
    """
    state = Stepping(section)
    streams = [_Stream.of(steps, section.engines) for steps in state.layers]
    for front, first in enumerate(streams):
        beside = streams[front : front + (LAYERS_BESIDE if section.fronts[front] else 0) + 1]
        while not first.is_done:
            start, stream = _best(beside, state)
            stream.late = start - section.in_order[stream.step.operation]
            state.take(stream.step, start)
            stream.at += 1
    return state.merged


def _by_engine(steps: Sequence[ScheduleStep], section: LayerSpan) -> dict[Engine, Steps]:
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


@dataclass(slots=True)
class _Stream:
    """The steps of a layer; `next_of` has, for each step, the next operation of each engine from there on."""

    steps: Sequence[ScheduleStep]
    next_of: Sequence[Mapping[Engine, int]]
    at: int = 0
    late: int | None = None  # cycles by which the last step came later than in the order of layers

    @staticmethod
    def of(steps: Sequence[ScheduleStep], engines: Sequence[Engine]) -> _Stream:
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
    def step(self) -> ScheduleStep:
        """The one whose turn it is."""
        return self.steps[self.at]


def _best(streams: Sequence[_Stream], state: Stepping) -> tuple[int, _Stream]:
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


MERGES: Mapping[Mix, Callable[[LayerSpan], Merged]] = {
    Mix.BALANCED: balanced,
    Mix.FRONT_FIRST: front_first,
    Mix.ROW_BY_ROW: row_by_row,
}
"""What mixes layers in each way."""
