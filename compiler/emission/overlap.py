"""Layers that keep different engines busy run beside each other: an order of tiles in which no engine waits in vain.

Example: a layer of products is followed by one of the vector engine, and each tile of the second reads one tile of the
first. One layer after the other, either engine stands still half of the time. In this order, the vector engine takes a
tile of the second layer whenever it would otherwise wait for the next product.

There are three such orders (`merge`). Stretches of layers for which the order takes as long as one layer after the
other stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.compiler.emission.ahead import Mix
from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.merge import LAYERS_BESIDE, MERGES, one_by_one
from tilewright.compiler.emission.room import BuffersOnChip
from tilewright.compiler.emission.stepping import LayerSpan, Merged
from tilewright.isa.machine.engine import Engine
from tilewright.isa.templates.work import Work

WORTH = 0.01
"""All layers stay one after the other unless this share of the program's cycles can be saved."""

WORTH_ALONE = 0.05
"""If it cannot, those layers are mixed that save this share of their own cycles..."""

WORTH_TRYING = 0.0005
"""... unless that is together less than this share of the program's cycles: all of it is ordered anew for that."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Another order of the operations, by index; `worth` is the least that it must save."""

    order: list[int]
    worth: int


def overlapped(
    layers: Sequence[int], engines: Sequence[Engine], durations: Sequence[Work], before: Dependences,
    residents: BuffersOnChip, in_order: Sequence[int], kept: Container[int] = (), mix: Mix | None = None,
    in_pieces: Container[int] = (),
) -> Overlap | None:  # fmt: skip
    """Another order of the operations that keeps all dependences; None if it would save too little.

    `layers`, `engines`, `durations` and `before` are those of the operations, and `in_order` is the start of each if
    one layer follows the other. `kept`: layers that are not to be mixed with others. `mix`: how they are mixed; None:
    balanced where layers are `in_pieces`, so that no engine waits for a whole one, and front first elsewhere.
    """
    is_by_layers = all(earlier <= later for earlier, later in pairwise(layers))
    if not is_by_layers:
        return None
    fronts = _fronts(layers, engines, durations, kept)
    stretches: list[_Stretch] = []
    numbers = sorted(set(layers))
    for group in _groups(fronts):
        span = range(bisect_left(layers, numbers[group.start]), bisect_right(layers, numbers[group.stop - 1]))
        section = LayerSpan(
            layers, engines, durations, before, residents, in_order, span, fronts[group.start : group.stop]
        )
        has_pieces = any(number in in_pieces for number in numbers[group.start : group.stop])
        usual = Mix.BALANCED if has_pieces else Mix.FRONT_FIRST
        stretches += _stretches(section, MERGES[mix or usual])
    return _worth_it(stretches, in_order)


def _fronts(
    layers: Sequence[int], engines: Sequence[Engine], durations: Sequence[Work], kept: Container[int]
) -> list[bool]:
    """For each layer, whether it and those that may run beside it could end earlier than one after the other.

    So it is if the busiest engine has less to do than the busiest ones of all these layers.
    """
    busy: dict[int, Counter[Engine]] = defaultdict(Counter)
    for layer, engine, duration in zip(layers, engines, durations, strict=True):
        busy[layer][engine] += duration.busy
    numbers = sorted(busy)
    every = [busy[layer] for layer in numbers]
    found = []
    for front in range(len(every)):
        beside = every[front : front + LAYERS_BESIDE + 1]
        one_by_one = sum(max(each.values()) for each in beside)
        at_once = max(sum(beside, Counter[Engine]()).values(), default=0)
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


def _stretches(section: LayerSpan, merge: Callable[[LayerSpan], Merged]) -> list[_Stretch]:
    """A mixed order, cut wherever all layers so far are done and none behind them is begun."""
    as_they_are, merged = one_by_one(section).starts, merge(section)
    layers, span = section.layers, section.span
    found: list[_Stretch] = []
    begin = last = span.start
    until = until_mixed = section.begin
    for end, index in enumerate(merged.order, span.start + 1):
        last = max(last, index)
        if last >= end or (end < span.stop and layers[end] == layers[last]):
            continue
        here = list(merged.order[begin - span.start : end - span.start])
        now, now_mixed = (max(starts[index] for index in here) for starts in (as_they_are, merged.starts))
        found.append(_Stretch(begin, here, now - until, now_mixed - until_mixed))
        begin, until, until_mixed = end, now, now_mixed
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
