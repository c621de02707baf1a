"""A machine that is stepped through without its loads: which operations of some layers start next, and when.

Loads come with the operation that needs them, as soon as they can.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.load_plan import fills
from tilewright.compiler.emission.room import BuffersOnChip, FreeWords
from tilewright.isa.machine.engine import Engine
from tilewright.isa.templates.work import Work


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """Some layers of a program: the operations in `span`, by index.

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


@dataclass(slots=True)
class ScheduleStep:
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


Steps = deque[ScheduleStep]


class Stepping:
    """The machine while operations start one after the other."""

    def __init__(self, section: LayerSpan) -> None:
        self.section = section
        self._end = section.begin  # the last start
        self._room = FreeWords(section.residents)
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

    def _opened(self) -> Mapping[int, list[ScheduleStep]]:
        """For each operation, the other steps that come after it."""
        before, first = self.section.before, self.section.span.start
        after: dict[int, list[ScheduleStep]] = defaultdict(list)
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

    def start(self, step: ScheduleStep) -> int:
        """When a step can start; its loads have started as soon as they could."""
        durations, engine = self.section.durations, self.section.engines[step.operation]
        loaded = max((self._ready[load] + durations[load].complete for load in step.reads), default=0)
        return max(self._end, self._free[engine], self._ready[step.operation], loaded)

    def has_room(self, step: ScheduleStep, start: int) -> bool:
        """Whether it is a step's turn, or there are words for what it brings on chip."""
        fresh = list(dict.fromkeys(buffer for index in step.all for buffer in self._room.fresh(index)))
        ready = self._room.ready(step.all[0], fresh, {}) if fresh else 0
        return step.all[0] == self._room.turn or (ready is not None and ready <= start)

    def take(self, step: ScheduleStep, start: int) -> None:
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


def _steps(section: LayerSpan) -> list[list[ScheduleStep]]:
    """The steps of each layer, in the order of layers."""
    operations: dict[int, list[int]] = defaultdict(list)
    for index in section.span:
        operations[section.layers[index]].append(index)
    return [_steps_of(operations[layer], section.engines, section.before) for layer in sorted(operations)]


def _steps_of(operations: Sequence[int], engines: Sequence[Engine], before: Dependences) -> list[ScheduleStep]:
    steps: list[ScheduleStep] = []
    together: list[int] = []
    for index in operations:
        together.append(index)
        if not fills(engines[index]) or index == operations[-1]:
            reads = tuple(load for load in together[:-1] if load in before.completed[index])
            steps.append(ScheduleStep(index, tuple(together), reads))
            together = []
    return steps
