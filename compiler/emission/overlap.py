"""Layers that keep different engines busy run beside each other: an order of tiles in which no engine waits in vain.

Example: a layer of products is followed by one of the vector engine, and each tile of the second reads one tile of the
first. One layer after the other, either engine stands still half of the time. In this order, the vector engine takes a
tile of the second layer whenever it would otherwise wait for the next product.

The layer in front goes first. An engine with nothing to do for it takes the next operation of one of the layers behind,
if all that it reads is there, and its words stay free until its turn (room). Loads come with the operation that
needs them; the scheduler moves them ahead.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.durations import Duration
from tilewright.compiler.emission.load_plan import LOAD, NEVER
from tilewright.compiler.emission.room import Residents, Room
from tilewright.isa.machine.machine import ENGINES

LAYERS_BESIDE = 2
"""So many layers behind the one in front may be begun."""

WORTH = 0.01
"""All layers stay one after the other unless this share of the program's cycles can be saved."""

WORTH_ALONE = 0.05
"""If it cannot, those layers are mixed that save this share of their own cycles..."""

WORTH_TRYING = 0.0005
"""... unless that is together less than this share of the program's cycles: all of it is ordered anew for that."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Another order of the operations, by index; `cycles` is the least that it must save to be worth it."""

    order: list[int]
    worth: int


def overlapped(
    layers: Sequence[int], engines: Sequence[str], durations: Sequence[Duration], before: Dependences,
    residents: Residents, in_order: Sequence[int], kept: Container[int] = (),
) -> Overlap | None:  # fmt: skip
    """Another order of the operations that keeps all dependences; None if it would save too little.

    `layers`, `engines`, `durations` and `before` are those of the operations, and `in_order` is the start of each if
    one layer follows the other. `kept`: layers that are not to be mixed with others.
    """
    is_by_layers = all(earlier <= later for earlier, later in pairwise(layers))
    if not is_by_layers:
        return None
    fronts = _fronts(layers, engines, durations, kept)
    stretches: list[_Stretch] = []
    numbers = sorted(set(layers))
    for group in _groups(fronts):
        span = range(bisect_left(layers, numbers[group.start]), bisect_right(layers, numbers[group.stop - 1]))
        merge = _Merge(layers, engines, durations, before, residents, in_order, span, fronts[group.start : group.stop])
        stretches += _stretches(merge.order(), merge, layers)
    return _worth_it(stretches, in_order)


def _fronts(
    layers: Sequence[int], engines: Sequence[str], durations: Sequence[Duration], kept: Container[int]
) -> list[bool]:
    """For each layer, whether it and those that may run beside it could end earlier than one after the other.

    So it is if the busiest engine has less to do than the busiest ones of all these layers.
    """
    busy: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(ENGINES, 0))
    for layer, engine, duration in zip(layers, engines, durations, strict=True):
        busy[layer][engine] += duration.busy
    numbers = sorted(busy)
    every = [busy[layer] for layer in numbers]
    found = []
    for front in range(len(every)):
        beside = every[front : front + LAYERS_BESIDE + 1]
        one_by_one = sum(max(each.values()) for each in beside)
        at_once = max(sum(each[engine] for each in beside) for engine in ENGINES)
        may_mix = not any(number in kept for number in numbers[front : front + LAYERS_BESIDE + 1])
        found.append(may_mix and at_once < (1 - WORTH) * one_by_one)
    return found


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Layers that are all done before any other begins: their operations, and their cycles one by one and mixed."""

    begin: int
    order: list[int]
    one_by_one: int
    mixed: int

    @property
    def in_order(self) -> list[int]:
        return list(range(self.begin, self.begin + len(self.order)))

    @property
    def least(self) -> float:
        """What the mixed order must save to be worth it by itself."""
        return WORTH_ALONE * self.one_by_one

    @property
    def saved(self) -> int:
        return self.one_by_one - self.mixed


def _groups(fronts: Sequence[bool]) -> list[range]:
    """The layers that may run beside each other, directly or by way of others: ranges that do not meet."""
    groups: list[range] = []
    for front in (front for front, may_save in enumerate(fronts) if may_save):
        stop = min(front + LAYERS_BESIDE + 1, len(fronts))
        if groups and front < groups[-1].stop:
            groups[-1] = range(groups[-1].start, stop)
        else:
            groups.append(range(front, stop))
    return groups


def _stretches(order: Sequence[int], merge: _Merge, layers: Sequence[int]) -> list[_Stretch]:
    """The mixed order, cut wherever all layers so far are done and none behind them is begun."""
    found: list[_Stretch] = []
    first = begin = last = merge.span.start
    one_by_one = mixed = merge.begin
    for end, index in enumerate(order, first + 1):
        last = max(last, index)
        if last >= end or (end < merge.span.stop and layers[end] == layers[last]):
            continue
        until = max(one_by_one, *(merge.in_order[i] for i in range(begin, end)))
        until_mixed = max(mixed, *(merge.starts[i] for i in range(begin, end)))
        here = list(order[begin - first : end - first])
        found.append(_Stretch(begin, here, until - one_by_one, until_mixed - mixed))
        begin, one_by_one, mixed = end, until, until_mixed
    return found


def _worth_it(stretches: Sequence[_Stretch], in_order: Sequence[int]) -> Overlap | None:
    """All that is mixed stays so if together it saves enough, or else those stretches that do so by themselves.

    `in_order`: the start of each operation, one layer after the other.
    """
    mixed = [stretch for stretch in stretches if stretch.order != stretch.in_order]
    least = WORTH * max(in_order, default=0)
    if sum(stretch.saved for stretch in mixed) <= least:
        mixed = [stretch for stretch in mixed if stretch.saved > stretch.least]
        least = sum(stretch.least for stretch in mixed)
    if not mixed or sum(stretch.saved for stretch in mixed) < WORTH_TRYING * max(in_order):
        return None
    order = list(range(len(in_order)))
    for stretch in mixed:
        order[stretch.begin : stretch.begin + len(stretch.order)] = stretch.order
    return Overlap(order, int(least))


@dataclass(slots=True)
class _Step:
    """An operation of another engine than load, or the last loads of a layer.

    `all`: the loads that stand right before it, and itself; `reads`: those of these loads that it comes after. `open`:
    how many operations of other steps must still start before it.
    """

    operation: int
    all: tuple[int, ...]
    reads: tuple[int, ...]
    open: int = 0


@dataclass(slots=True)
class _Stream:
    """The steps of a layer; `next_of` has, for each step, the next operation of each engine from there on."""

    steps: Sequence[_Step]
    next_of: Sequence[Mapping[str, int]]
    at: int = 0
    late: int | None = None  # cycles by which the last step came later than in the order of layers

    @property
    def is_done(self) -> bool:
        return self.at == len(self.steps)

    @property
    def step(self) -> _Step:
        """The one whose turn it is."""
        return self.steps[self.at]


class _Merge:
    """The streams of all layers while they become one; loads take no turns and start as soon as they can."""

    def __init__(
        self, layers: Sequence[int], engines: Sequence[str], durations: Sequence[Duration], before: Dependences,
        residents: Residents, in_order: Sequence[int], span: range, fronts: Sequence[bool],
    ) -> None:  # fmt: skip
        """`in_order`: the start of each operation, one layer after the other; `span`: the operations of the layers;
        `fronts`: by layer, whether others may be begun beside it."""
        self._engines, self._durations = engines, durations
        self._fronts = fronts
        self.span, self.in_order = span, in_order
        self.starts = [0] * len(engines)  # in the mixed order
        self.begin = max(in_order[: span.start], default=0)
        self.end = self.begin  # the last start
        self._room = Room(residents)
        self._room.begin_at(span.start)
        self._streams = _streams(layers, span, engines, before)
        self._ready = [0] * len(engines)  # when what an operation comes after lets it start
        self._after_end, self._after_start = before.after_end, before.after_start
        self._steps_after = self._opened(before)
        self._free = dict.fromkeys(ENGINES, self.begin)

    def _opened(self, before: Dependences) -> Mapping[int, list[_Step]]:
        """For each operation, the other steps that come after it."""
        after: dict[int, list[_Step]] = defaultdict(list)
        for step in (step for stream in self._streams for step in stream.steps):
            for index in step.all:
                for earlier in (*before.completed[index], *before.started[index]):
                    if earlier >= self.span.start and earlier not in step.all:
                        step.open += 1
                        after[earlier].append(step)
        return after

    def order(self) -> list[int]:
        """All operations; the layer in front can always go on."""
        found: list[int] = []
        for front, first in enumerate(self._streams):
            while not first.is_done:
                beside = LAYERS_BESIDE if self._fronts[front] else 0
                start, stream = self._best(self._streams[front : front + beside + 1])
                found += stream.step.all
                self._take(stream, start)
        return found

    def _best(self, streams: Sequence[_Stream]) -> tuple[int, _Stream]:
        """When which stream goes on: the one in front, unless another can start before it and before it is wanted."""
        best = self._start(streams[0].step), streams[0]
        for position, stream in enumerate(streams[1:], 1):
            if stream.is_done or stream.step.open:
                continue
            start = self._start(stream.step)
            limit = min(best[0], self._wanted(self._engines[stream.step.operation], streams[:position]))
            if start < limit and self._has_room(stream.step, start):
                best = start, stream
        return best

    def _start(self, step: _Step) -> int:
        """When a step can start; its loads have started as soon as they could."""
        loaded = max((self._ready[load] + self._durations[load].complete for load in step.reads), default=0)
        return max(self.end, self._free[self._engines[step.operation]], self._ready[step.operation], loaded)

    def _wanted(self, engine: str, streams: Sequence[_Stream]) -> int:
        """When layers in front will want an engine, as far as they are begun."""
        return min(
            (
                self.in_order[stream.next_of[stream.at][engine]] + stream.late
                for stream in streams
                if stream.late is not None and not stream.is_done and engine in stream.next_of[stream.at]
            ),
            default=NEVER,
        )

    def _has_room(self, step: _Step, start: int) -> bool:
        """Whether there are words for what a step brings on chip."""
        fresh = {buffer.name: buffer for index in step.all for buffer in self._room.fresh(index)}
        ready = self._room.ready(step.all[0], fresh.values(), {}) if fresh else 0
        return ready is not None and ready <= start

    def _take(self, stream: _Stream, start: int) -> None:
        step = stream.step
        for index in step.all[:-1]:
            self._begin(index, self._ready[index])
        self._begin(step.operation, start)
        self.end = start
        stream.late = start - self.in_order[step.operation]
        stream.at += 1

    def _begin(self, index: int, start: int) -> None:
        duration, engine = self._durations[index], self._engines[index]
        end = start + duration.complete
        self.starts[index] = start
        if engine != LOAD:
            self._free[engine] = start + duration.busy
        self._room.take(index, max(start, self.end), max(end, self.end))
        for after, cycle in ((self._after_end, end), (self._after_start, start)):
            for later in after[index]:
                self._ready[later] = max(self._ready[later], cycle)
        for step in self._steps_after.get(index, ()):
            step.open -= 1


def _streams(layers: Sequence[int], span: range, engines: Sequence[str], before: Dependences) -> list[_Stream]:
    """The stream of each layer, in the order of layers."""
    operations: dict[int, list[int]] = defaultdict(list)
    for index in span:
        operations[layers[index]].append(index)
    return [_stream(operations[layer], engines, before) for layer in sorted(operations)]


def _stream(operations: Sequence[int], engines: Sequence[str], before: Dependences) -> _Stream:
    """The steps of one layer's operations, with what its engines do next."""
    steps: list[_Step] = []
    together: list[int] = []
    for index in operations:
        together.append(index)
        if engines[index] != LOAD or index == operations[-1]:
            reads = tuple(load for load in together[:-1] if load in before.completed[index])
            steps.append(_Step(index, tuple(together), reads))
            together = []
    next_of: list[Mapping[str, int]] = []
    following: dict[str, int] = {}
    for step in reversed(steps):
        following = {**following, engines[step.operation]: step.operation}
        next_of.append(following)
    return _Stream(steps, next_of[::-1])
