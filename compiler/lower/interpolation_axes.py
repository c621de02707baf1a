"""The dimensions of a linear interpolation in two passes: their blends, and where results lie beside the operand.

A blend's result lies beside one of the two elements that it is computed from, behind those of other blends: in a cell.
Example, 12 elements that become 36: three cells beside each element hold all, though some pairs have four results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.blends import Blend, blends
from tilewright.compiler.lower.moves import IndexRun, runs
from tilewright.compiler.lower.network import SPACE, LoweringNetwork, affine
from tilewright.compiler.lower.product_types import is_sum
from tilewright.compiler.nest.nest import Affine

OWN = affine(("o", 1))
"""The channel of a result, in what it is computed from."""

TAPS = {ROW: "r", COLUMN: "s"}
"""The loop over taps along each dimension."""


@dataclass(frozen=True, slots=True)
class BlendCell:
    """Where a blend's result lies: how many others lie between it and an element, which is its first or second one."""

    slot: int
    place: int


@dataclass(frozen=True, slots=True)
class BlendAxis:
    """One dimension: two weights for each blend, which add up to `total`, and the cell of its result."""

    dimension: int
    total: int
    blends: tuple[Blend, ...]
    cells: tuple[BlendCell, ...]

    @property
    def slots(self) -> int:
        return 1 + max(cell.slot for cell in self.cells)

    def index(self, along: Affine, channel: Affine = OWN) -> tuple[Affine, ...]:
        """Indices that go over all other dimensions."""
        index = [affine((loop, 1)) for loop in SPACE]
        index[CHANNEL], index[self.dimension] = channel, along
        return tuple(index)

    def result(self, run: IndexRun) -> Affine:
        return run.result(SPACE[self.dimension])

    def read(self, run: IndexRun, place: int = 0) -> Affine:
        """The index of a run's first element, or of one so many places further."""
        first = run.read(SPACE[self.dimension])
        return affine(*first.terms, constant=first.constant + place)

    def window(self, run: IndexRun) -> Affine:
        """The index of a run's elements, a tap for each of the two."""
        first = run.read(SPACE[self.dimension])
        return affine(*first.terms, (TAPS[self.dimension], 1), constant=first.constant)

    def gaps(self, sizes: Sequence[int]) -> list[tuple[int, IndexRun]]:
        """Slots and runs of elements behind which no blend lies."""
        found = []
        for slot in range(self.slots):
            own = [(b.run, cell.place) for b, cell in zip(self.blends, self.cells, strict=True) if cell.slot == slot]
            used = {element + place for run, place in own for element in elements(run)}
            free = [index for index in range(sizes[self.dimension]) if index not in used]
            found += [(slot, run) for run in runs(free)]
        return found

    def trips(self, run: IndexRun, shape: Sequence[int]) -> tuple[int, ...]:
        trips = list(shape)
        trips[self.dimension] = run.count
        return tuple(trips)


PER_PRODUCT = 64
"""About the cycles for which loads and results of a small product keep the array waiting."""

Axes = tuple[BlendAxis, BlendAxis]
"""The dimension of the first pass and that of the second."""


def two_axes(operator: Operator, network: LoweringNetwork) -> Axes | None:
    """Columns and rows of an interpolation; None if it cannot go along one and then the other."""
    sizes = network.shape(operator.inputs[0])
    if not network.adds_scaled or is_sum(operator.outputs[0], network):
        return None
    widest = network.arithmetic.weight.interval.high
    rows, columns = (
        _axis(dimension, operator.attributes[name], sizes, widest)
        for dimension, name in ((ROW, "rows"), (COLUMN, "columns"))
    )
    return None if rows is None or columns is None else (columns, rows)


def cycles_by_axis(operator: Operator, axes: Axes, network: LoweringNetwork) -> int:
    """About how many cycles the products of both passes take."""
    first, second = axes
    image, result = (network.shape(name) for name in (operator.inputs[0], operator.outputs[0]))
    beside = image[BATCH] * image[second.dimension]
    widest = network.arithmetic.weight.interval.high
    total = sum(product_cycles(3, beside * blend.run.count, network) for blend in first.blends)
    beside = image[BATCH] * result[first.dimension]
    for blend in second.blends:
        taps = 3
        if not rounds_carries(operator, axes, network):
            taps = 2 + sum(-(-weight * first.total // widest) for weight in blend.weights)
        total += product_cycles(taps, beside * blend.run.count, network)
    return total


def product_cycles(taps: int, vectors: int, network: LoweringNetwork) -> int:
    """About how many cycles a product of few vectors takes: meanwhile the array loads the weights of its next tap."""
    return taps * max(vectors, network.lanes) + PER_PRODUCT


def rounds_carries(operator: Operator, axes: Axes, network: LoweringNetwork) -> bool:
    (x_scale, _), (y_scale, _) = (network.quantization(name) for name in (operator.inputs[0], operator.outputs[0]))
    return x_scale == y_scale and all(axis.total % 2 == 1 for axis in axes)


def _axis(dimension: int, triples: Sequence[int], sizes: Sequence[int], widest: int) -> BlendAxis | None:
    """A dimension of an interpolation; None if it has one element, or weights as whole numbers beyond the widest.

    All weights of a result, and what `high` is multiplied by, are weights of the machine.
    """
    size = sizes[dimension]
    places = list(zip(triples[::3], triples[1::3], triples[2::3], strict=True)) or [(i, 1, 0) for i in range(size)]
    total = math.lcm(*(here + beyond for _, here, beyond in places))
    if size < 2 or total > widest:
        return None
    even: list[int] = []
    for first, here, beyond in places:
        a, b = (weight * total // (here + beyond) for weight in (here, beyond))
        even += (first, a, b) if first < size - 1 else (size - 2, b, a)
    found = [part for blend in blends(even, size) for part in _advancing(blend, total)]
    return BlendAxis(dimension, total, tuple(found), tuple(_cells(found, size)))


def _advancing(blend: Blend, total: int) -> list[Blend]:
    """A blend with two weights, in parts of which each reads other elements in each place."""
    run, weights = blend.run, blend.weights if len(blend.weights) > 1 else (total, 0)
    if run.source_step or run.count == 1:
        return [Blend(run, weights)]
    return [Blend(IndexRun(1, run.to + i * run.to_step, 1, run.source, 1), weights) for i in range(run.count)]


def _cells(blends: Sequence[Blend], size: int) -> list[BlendCell]:
    """A cell for each blend that no other has, in as few slots as there can be, about."""
    taken: list[set[int]] = [set() for _ in range(-(-sum(blend.run.count for blend in blends) // size))]
    found: dict[Blend, BlendCell] = {}
    for blend in sorted(blends, key=lambda blend: blend.run.source):
        own = set(elements(blend.run))
        free = [(p, slot) for p in (0, 1) for slot, used in enumerate(taken) if not used & {i + p for i in own}]
        place, slot = free[0] if free else (0, len(taken))
        taken += [set()] * (slot == len(taken))
        taken[slot] = taken[slot] | {i + place for i in own}
        found[blend] = BlendCell(slot, place)
    return [found[blend] for blend in blends]


def elements(run: IndexRun) -> range:
    """The operand's elements from which a run's results begin."""
    return range(run.source, run.source + run.count * run.source_step, run.source_step)
