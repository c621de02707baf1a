"""A permutation of a stored tensor's elements as steps that the machine can take, with few buffers between them.

A form says for each factor of the elements' index in which dimension of [N, C, H, W] it lies, with which step.
Three kinds of moves lead from one form to another:

    copy        whole words: the innermost channels stay together, all others move by multiples of the lanes
    exchange    the innermost channels become pixels, and pixels that follow each other become channels
    pick        channels go to other lanes: a product with a matrix of ones and zeros

Example, 2 heads of 24 channels on 16 lanes joined, [2, 24, 1, W] → [1, 48, 1, W]: a copy to [1, 32 + 24, 1, W], in
which each head begins on a word, and a pick of 48 of its 56 channels.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from math import prod
from typing import assert_never

from tilewright.compiler.graph.element_order import ElementOrder
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW

Shape = tuple[int, int, int, int]
Groups = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""For each dimension its factors, outermost first."""

NEST_COST = 64
"""The cost of one more nest, in words that are moved."""

MOST_NESTS = 1024
"""Steps with more nests are not tried: no network has nearly as many heads."""


@dataclass(frozen=True, slots=True)
class BufferForm:
    """A buffer's shape, and for each factor its dimension and the step between its indices there."""

    shape: Shape
    places: tuple[tuple[int, int], ...]  # (dimension, step) by factor


@dataclass(frozen=True, slots=True)
class JoinedFactors:
    """Factors that follow each other in two forms, joined to one: its dimension and step in each form."""

    size: int
    source: tuple[int, int]
    result: tuple[int, int]


class StepKind(Enum):
    """How a step moves elements; see the head of this file."""

    COPY = auto()
    EXCHANGE = auto()
    PICK = auto()


@dataclass(frozen=True, slots=True)
class PermuteStep:
    """A move from one form to another: a nest for each combination of the indices of `unrolled`.

    Each nest walks along `loops`: for each dimension of the result a run, or None where the nest stays at one index.
    The run of the rows may also go along the columns, with the larger step. All of a pick's channels are in `picked`.
    `leaving` is the dimension to which an exchange takes the innermost channels.
    """

    kind: StepKind
    source: BufferForm
    result: BufferForm
    loops: tuple[JoinedFactors | None, JoinedFactors | None, JoinedFactors | None, JoinedFactors | None]
    unrolled: tuple[JoinedFactors, ...]
    picked: tuple[JoinedFactors, ...] = ()
    leaving: int = CHANNEL

    @property
    def nests(self) -> int:
        return prod(run.size for run in self.unrolled)


def steps_of(order: ElementOrder, source: Shape, result: Shape, lanes: int) -> list[PermuteStep] | None:
    """The cheapest steps found that move a stored tensor's elements to another order; None if there are none."""
    cut = order.cut_as_source(source)
    cut = None if cut is None else cut.cut_as_result(result)
    if cut is None:
        return None
    first = _four(cut.source_groups(source))
    last = _four([tuple(cut.axes[j] for j in group) for group in cut.result_groups(result)])
    sizes = cut.sizes
    forms = list(dict.fromkeys([_form(last, sizes), *_forms_between(first, last, sizes, lanes)]))
    return _cheapest(_form(first, sizes), forms, sizes, lanes)


def _cheapest(
    start: BufferForm, forms: Sequence[BufferForm], sizes: Sequence[int], lanes: int
) -> list[PermuteStep] | None:
    """The cheapest path of steps from a form to the first of some others (Dijkstra's algorithm)."""
    ties = count()
    heap: list[tuple[float, int, BufferForm, list[PermuteStep]]] = [(0, next(ties), start, [])]
    done: set[BufferForm] = set()
    while heap:
        cost, _, form, steps = heapq.heappop(heap)
        if form == forms[0]:
            return steps
        if form in done:
            continue
        done.add(form)
        for other in forms:
            step = None if other in done else _step(form, other, sizes, lanes)
            if step is not None:
                heapq.heappush(heap, (cost + _cost(step, lanes), next(ties), other, [*steps, step]))
    return None


def _cost(step: PermuteStep, lanes: int) -> float:
    """In words moved; a copy that only changes addresses is likely to be removed later (compiler/nest/copies.py)."""
    if step.kind is StepKind.COPY and (_only_parts_channels(step) or _only_joins_rows(step)):
        return step.nests
    batches, channels, rows, columns = step.result.shape
    words = batches * rows * columns * -(-channels // lanes)
    return step.nests * NEST_COST + words * _passes(step, lanes)


def _passes(step: PermuteStep, lanes: int) -> int:
    """How often a step goes over each word of its result."""
    match step.kind:
        case StepKind.COPY:
            return 1
        case StepKind.EXCHANGE:
            return 2
        case StepKind.PICK:
            return -(-step.source.shape[CHANNEL] // lanes)
        case _:
            assert_never(step.kind)


def _only_parts_channels(step: PermuteStep) -> bool:
    """Whether elements move only between channels and batches."""
    runs = (*(run for run in step.loops if run is not None), *step.unrolled)
    return all(
        run.source == run.result or {run.source[0], run.result[0]} <= {BATCH, CHANNEL} for run in runs
    ) and step.source.shape[ROW:] == step.result.shape[ROW:]  # fmt: skip


def _only_joins_rows(step: PermuteStep) -> bool:
    """Whether only rows follow each other in one row, or one is cut into rows, by one nest."""
    return not step.unrolled and step.source.shape[:ROW] == step.result.shape[:ROW] and all(
        run.source == run.result or {run.source[0], run.result[0]} == {ROW, COLUMN} for run in step.loops if run
    )  # fmt: skip


# -- steps -------------------------------------------------------------------------------------------------------------


def _step(source: BufferForm, result: BufferForm, sizes: Sequence[int], lanes: int) -> PermuteStep | None:
    """The step from a form to another, if a single one is enough."""
    runs = _runs(source, result, sizes)
    leaving = next((run for run in runs if run.source == (CHANNEL, 1)), None)
    coming = next((run for run in runs if run.result == (CHANNEL, 1)), None)
    if leaving is coming and _keep_lanes(runs, leaving, leaving, lanes):
        step = _walk(StepKind.COPY, source, result, runs, coming)
    elif coming is not leaving and _is_exchange(runs, leaving, coming, lanes):
        step = _walk(StepKind.EXCHANGE, source, result, runs, coming, leaving)
    elif _is_pick(runs, result):
        step = _walk(StepKind.PICK, source, result, runs, None)
    else:
        return None
    return step if step is not None and step.nests <= MOST_NESTS else None


def _runs(source: BufferForm, result: BufferForm, sizes: Sequence[int]) -> list[JoinedFactors]:
    """All factors, joined to as few runs as possible."""
    at = {(source.places[f], result.places[f]): f for f in range(len(sizes))}
    outer: dict[int, int] = {}
    for f, size in enumerate(sizes):
        (d, step), (e, to) = source.places[f], result.places[f]
        following = at.get(((d, step * size), (e, to * size)))
        if following is not None:
            outer[f] = following
    runs = []
    for f in set(range(len(sizes))) - set(outer.values()):
        size, g = sizes[f], f
        while g in outer:
            g = outer[g]
            size *= sizes[g]
        runs.append(JoinedFactors(size, source.places[f], result.places[f]))
    return sorted(runs, key=lambda run: run.result)


def _keep_lanes(
    runs: Sequence[JoinedFactors], leaving: JoinedFactors | None, coming: JoinedFactors | None, lanes: int
) -> bool:
    """Whether all channels but the innermost move in whole words."""
    return all(
        step % lanes == 0
        for run in runs
        for but, (dimension, step) in ((leaving, run.source), (coming, run.result))
        if dimension == CHANNEL and run is not but
    )


def _is_exchange(
    runs: Sequence[JoinedFactors], leaving: JoinedFactors | None, coming: JoinedFactors | None, lanes: int
) -> bool:
    """Whether pixels one after the other come to the innermost channels, and these go to other dimensions."""
    comes = coming is None or coming.source in ((ROW, 1), (COLUMN, 1))
    leaves = leaving is None or leaving.result[0] != CHANNEL
    return comes and leaves and _keep_lanes(runs, leaving, coming, lanes)


def _is_pick(runs: Sequence[JoinedFactors], result: BufferForm) -> bool:
    """Whether all channels of the result are channels already, and leave no gaps there."""
    channels = [run for run in runs if run.result[0] == CHANNEL]
    is_dense = prod(run.size for run in channels) == result.shape[CHANNEL]
    return is_dense and all(run.source[0] == CHANNEL for run in channels)


def _walk(
    kind: StepKind,
    source: BufferForm,
    result: BufferForm,
    runs: Sequence[JoinedFactors],
    lane: JoinedFactors | None,
    leaving: JoinedFactors | None = None,
) -> PermuteStep | None:
    """A step whose nests walk along the longest run of each dimension; all other runs are unrolled.

    In a copy, rows may follow each other in one row of the result: the nests walk along these as well.
    """
    loops: list[JoinedFactors | None] = [None, lane, None, None]
    for dimension in (BATCH, ROW, COLUMN):
        inside = [run for run in runs if run.result[0] == dimension and run.source[0] != CHANNEL]
        loops[dimension] = max(inside, key=lambda run: run.size, default=None)
    columns = [run for run in runs if run.result[0] == COLUMN and run.source[0] != CHANNEL]
    if kind is StepKind.COPY and loops[ROW] is None and len(columns) > 1:
        longest = sorted(columns, key=lambda run: -run.size)[:2]
        loops[ROW], loops[COLUMN] = sorted(longest, key=lambda run: -run.result[1])
    to = CHANNEL
    if kind is StepKind.EXCHANGE:
        free = [dimension for dimension in (COLUMN, ROW, BATCH) if not any(run.result[0] == dimension for run in runs)]
        if leaving is None and not free:
            return None
        leaving = leaving or JoinedFactors(1, (CHANNEL, 1), (free[0], 1))
        loops[CHANNEL] = lane or JoinedFactors(1, (COLUMN, 1), (CHANNEL, 1))
        to = leaving.result[0]
        loops[to] = leaving
    picked = tuple(run for run in runs if kind is StepKind.PICK and run.result[0] == CHANNEL)
    unrolled = tuple(run for run in runs if run not in loops and run not in picked)
    walked = (loops[BATCH], loops[CHANNEL], loops[ROW], loops[COLUMN])
    return PermuteStep(kind, source, result, walked, unrolled, picked, to)


# -- forms -------------------------------------------------------------------------------------------------------------


def _form(groups: Groups, sizes: Sequence[int], inner: int = 0, width: int = 0) -> BufferForm:
    """The form in which each dimension has its factors; the `inner` last of the channels take `width` channels."""
    places, shape = {}, []
    for dimension, group in enumerate(groups):
        step, size = 1, 1
        for position, f in enumerate(reversed(group)):
            step = width if dimension == CHANNEL and position == inner > 0 else step
            places[f] = (dimension, step)
            size += (sizes[f] - 1) * step
            step *= sizes[f]
        shape.append(size)
    return BufferForm(
        (shape[BATCH], shape[CHANNEL], shape[ROW], shape[COLUMN]), tuple(places[f] for f in range(len(sizes)))
    )


def _forms_between(first: Groups, last: Groups, sizes: Sequence[int], lanes: int) -> Iterator[BufferForm]:
    """Forms that may lie between: some factors are channels, some columns, and the rest batches and rows."""
    groups = list(dict.fromkeys(group for ends in (first, last) for group in _ends_of(ends, first, last)))
    for channels in groups:
        for columns in ((), *groups):
            if not set(channels) & set(columns):
                taken = {*channels, *columns}
                for batches, rows in _arrangements(first, last, taken):
                    yield _form((batches, channels, rows, columns), sizes)
                    if not columns:
                        yield _form((batches, channels, (), rows), sizes)
    for inner in range(1, len(last[CHANNEL])):
        width = prod(sizes[f] for f in last[CHANNEL][-inner:])
        yield _form(last, sizes, inner, -(-width // lanes) * lanes)


def _ends_of(ends: Groups, first: Groups, last: Groups) -> Iterator[tuple[int, ...]]:
    """All channels of a form, the innermost factor, and those innermost ones that only this form has as channels."""
    channels = ends[CHANNEL]
    yield channels
    yield channels[-1:]
    kept = set(first[CHANNEL]) & set(last[CHANNEL])
    own = len(channels)
    while own and channels[own - 1] not in kept:
        own -= 1
    yield channels[own:]


def _arrangements(
    first: Groups, last: Groups, taken: set[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:  # fmt: skip
    """Ways to put all factors that are not taken into batches and rows."""
    for groups in (first, last):
        rest = tuple(f for group in groups for f in group if f not in taken)
        batches = tuple(f for f in groups[BATCH] if f not in taken)
        yield rest, ()
        yield (), rest
        yield batches, tuple(f for f in rest if f not in batches)


def _four(groups: Sequence[tuple[int, ...]]) -> Groups:
    batches, channels, rows, columns = groups
    return batches, channels, rows, columns
