"""Linear interpolation in two passes, along columns and then along rows, where most results have weights of their own.

Example: 12 rows and columns that become 24 with their corners aligned lie at multiples of 11/23. In one pass, each of
24 · 24 results has other weights, up to 23 · 23, which no weight holds. In two, 24 columns have weights up to 23, and
then 24 rows.

No sum is rounded between the passes. With the weights a of a column, which add up to D, and b of a row, up to E:

    high = round(Σ a·x / D)      low = Σ a·x - D·high            so that Σ a·x = D·high + low
    y = round((Σ D·b·high + Σ b·low) · scale)

Weights D·b are several terms of eight bits. Where the result has the operand's scale, and D and E are odd, none are:

    carry = round(Σ b·low / D)   y = round((Σ b·high + carry) / E)

For y goes up where Σ b·high + Σ b·low / D passes an odd multiple of E / 2. That is halfway between two integers, so it
does the same when rounded to an integer; and there are no ties, since D·E is odd.

A product reads one buffer. So what it adds up lies side by side there, as channels: those of the operand or of `high`,
and behind them, in cells (`lower/interpolation_axes.py`), those of `high` or `carry`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.blends import Blend
from tilewright.compiler.lower.interpolation_axes import OWN, Axes, BlendAxis, BlendCell, elements, rounds_carries
from tilewright.compiler.lower.moves import IndexRun
from tilewright.compiler.lower.network import (
    SPACE,
    LoweringNetwork,
    affine,
    padded_channels,
    result_loops,
    target_of,
)
from tilewright.compiler.lower.products import TERM, Product, product_nest, sum_bounds, terms_of
from tilewright.compiler.nest.expressions import Target, added, rescaled
from tilewright.compiler.nest.nest import Access, Affine, Nest
from tilewright.isa.language.expressions import Expr

NEXT, LOW = 1, 2
"""Without carries, what lies behind the channels of `high`: those of the next element, and low parts."""


def lower_by_axis(operator: Operator, axes: Axes, network: LoweringNetwork) -> list[Nest]:
    """The nests of an interpolation, in an order in which all is written before it is read."""
    return _ByAxis(operator, axes, network).nests()


def _in_order(
    written: Sequence[tuple[IndexRun, list[Nest]]], read: Sequence[tuple[IndexRun, Nest]], is_ahead: bool
) -> list[Nest]:
    """Each nest that reads after those that write to any element up to its last one; both with their elements.

    If the vector engine is to be ahead of the array, one of the others follows each, so that it never has much to do
    at once.
    """
    found: list[Nest] = []
    waiting = sorted(written, key=lambda of: of[0].source)
    for run, reader in sorted(read, key=lambda of: _last(of[0])):
        while waiting and waiting[0][0].source <= _last(run) + 1:
            found += waiting.pop(0)[1]
        found.append(reader)
        if waiting and is_ahead:
            found += waiting.pop(0)[1]
    return [*found, *(nest for _, nests in waiting for nest in nests)]


def _last(run: IndexRun) -> int:
    return elements(run)[-1]


def _at(place: int, weight: int) -> tuple[int, int]:
    """A weight for one of two taps."""
    return (0, weight) if place else (weight, 0)


class _ByAxis:
    """The buffers, numbers and nests of one interpolation."""

    def __init__(self, operator: Operator, axes: Axes, network: LoweringNetwork) -> None:
        self._operator, self._network = operator, network
        self._first, self._second = first, second = axes
        self._carries = rounds_carries(operator, axes, network)
        x, y = operator.inputs[0], operator.outputs[0]
        (x_scale, self._zero), (y_scale, _) = network.quantization(x), network.quantization(y)
        self._scale = x_scale / y_scale
        self._image = network.shape(x)
        self._channels = self._image[CHANNEL]
        batches, channels, height, _ = self._image
        self._between = (batches, channels, height, network.shape(y)[COLUMN])
        self._apart = padded_channels(self._channels, network)
        self._x, self._y = network.buffer_of[x], network.buffer_of[y]
        self._beside_x = self._side_by_side(f"{y}.beside", self._image, first.slots)
        behind = second.slots if self._carries else LOW
        self._beside_high = self._side_by_side(f"{y}.high", self._between, behind)
        self._low = network.add_buffer(f"{y}.low", self._between) if self._carries else self._beside_high

    def nests(self) -> list[Nest]:
        return [*self._first_pass(), *self._second_pass()]

    def _copied(self) -> list[tuple[IndexRun, list[Nest]]]:
        """The operand where results lie beside it; with carries in halves, as the first products wait for its first."""
        axis, size = self._first, self._image[self._first.dimension]
        half = -(-size // 2) if self._carries else size
        found = []
        for number, run in enumerate((IndexRun(half, 0, 1, 0, 1), IndexRun(size - half, half, 1, half, 1))):
            if not run.count:
                continue
            read, result = (Access(buffer, axis.index(axis.read(run))) for buffer in (self._x, self._beside_x))
            found.append((run, [self._copy(f"operand{number}", axis.trips(run, self._image), read, result)]))
        return found

    def _first_pass(self) -> list[Nest]:
        axis, written, read = self._first, self._copied(), []
        for number, (blend, cell) in enumerate(zip(axis.blends, axis.cells, strict=True)):
            written.append((blend.run, self._high(f"first{number}", blend, cell)))
            read.append((blend.run, self._low_of(f"first{number}.low", blend, cell)))
        written += self._filled("first", axis, self._x, self._beside_x, self._image, axis.gaps(self._image))
        return _in_order(written, read, is_ahead=True)

    def _second_pass(self) -> list[Nest]:
        axis, written, read = self._second, [], []
        for number, (blend, cell) in enumerate(zip(axis.blends, axis.cells, strict=True)):
            if self._carries:
                written.append((blend.run, [self._carry(f"second{number}.carry", blend, cell)]))
            read.append((blend.run, self._sum(f"second{number}", blend, cell)))
        last = self._image[axis.dimension] - 1
        gaps = axis.gaps(self._image) if self._carries else [(NEXT - 1, IndexRun(1, 0, 1, last, 1))]
        written += self._filled("second", axis, self._low, self._beside_high, self._between, gaps)
        return _in_order(written, read, is_ahead=not self._carries)  # those with carries take longer than one

    def _filled(
        self,
        name: str,
        axis: BlendAxis,
        source: str,
        buffer: str,
        shape: Sequence[int],
        gaps: Sequence[tuple[int, IndexRun]],
    ) -> list[tuple[IndexRun, list[Nest]]]:
        """Copies to where nothing lies beside an element: loads take what lies between, so all has to be written."""
        found = []
        for number, (slot, run) in enumerate(gaps):
            read = Access(source, axis.index(axis.read(run)))
            result = Access(buffer, axis.index(axis.read(run), self._behind(slot)))
            found.append((run, [self._copy(f"{name}.gap{number}", axis.trips(run, shape), read, result)]))
        return found

    def _high(self, name: str, blend: Blend, cell: BlendCell) -> list[Nest]:
        """The mean of two elements, rounded: beside one of them, and again where the second pass reads it.

        Not copied: a copy of every other element would load those between, too, which are written later.
        """
        axis, run = self._first, blend.run
        target = self._network.unlimited(self._zero)
        reads, expr = self._blended(self._x, axis, blend, self._zero, 1 / axis.total, 1, target)
        held = Access(self._beside_x, axis.index(axis.read(run, cell.place), self._behind(cell.slot)))
        again = Access(self._beside_high, axis.index(axis.result(run)))
        trips = axis.trips(run, self._image)
        found = [
            self._nest(f"{name}.{role}", trips, reads, to, expr) for role, to in (("high", held), ("again", again))
        ]
        return found if self._carries else [*found, self._shifted(found[-1])]

    def _shifted(self, again: Nest) -> Nest:
        """`high` without its first elements along the second dimension, beside those that come before them."""
        dimension = self._second.dimension
        trips = [loop.trip for loop in again.loops]
        trips[dimension] -= 1
        reads = {}
        for leaf, read in again.reads.items():
            index = list(read.index)
            index[dimension] = affine((SPACE[dimension], 1), constant=1)
            reads[leaf] = replace(read, index=tuple(index))
        result = list(again.result.index)
        result[CHANNEL] = self._behind(NEXT - 1)
        moved = replace(again.result, index=tuple(result))
        return replace(again, name=f"{again.name}.next", loops=result_loops(trips), reads=reads, result=moved)

    def _low_of(self, name: str, blend: Blend, cell: BlendCell) -> Nest:
        """What `high` leaves of the weighted sum."""
        axis, run = self._first, blend.run
        channel = OWN if self._carries else self._behind(LOW - 1)
        values = self._matrix(axis, {0: blend.weights, cell.slot + 1: _at(cell.place, -axis.total)})
        result = Access(self._low, axis.index(axis.result(run), channel))
        if not all(blend.weights):
            nothing = rescaled(self._network.activation("a"), 0, 1, 0, Target(0, 0, 0), self._network.from_activations)
            read = {"a": Access(self._x, axis.index(axis.read(run)))}
            return self._nest(name, axis.trips(run, self._image), read, result, nothing)
        return self._product(name, axis, run, values, self._beside_x, result, 0, 1.0, self._network.unlimited(0))

    def _carry(self, name: str, blend: Blend, cell: BlendCell) -> Nest:
        """What the low parts of two elements are together, rounded in units of `high`."""
        axis, run, by = self._second, blend.run, 1 / self._first.total
        reads, expr = self._blended(self._low, axis, blend, 0, by, by, self._network.unlimited(0))
        held = Access(self._beside_high, axis.index(axis.read(run, cell.place), self._behind(cell.slot)))
        return self._nest(name, axis.trips(run, self._between), reads, held, expr)

    def _sum(self, name: str, blend: Blend, cell: BlendCell) -> Nest:
        """The result, from two elements and their carry, or their low parts."""
        axis, run, (a, b) = self._second, blend.run, blend.weights
        if self._carries and not (a and b):
            return self._carried(name, blend, cell)
        by = 1 if self._carries else self._first.total
        total, blocks = axis.total * by, {0: (a, b), cell.slot + 1: _at(cell.place, 1)}
        if not self._carries:
            blocks = {0: (a * by, 0), NEXT: (b * by, 0), LOW: (a, b)}
        result = Access(self._y, axis.index(axis.result(run)))
        bias, scale = -self._zero * total, self._scale / total
        return self._product(name, axis, run, self._matrix(axis, blocks), self._beside_high, result, bias, scale, None)

    def _carried(self, name: str, blend: Blend, cell: BlendCell) -> Nest:
        """The result where it is one element: `high` and its carry."""
        axis, run, network = self._second, blend.run, self._network
        own = axis.index(axis.read(run, 0 if blend.weights[0] else 1))
        carry = axis.index(axis.read(run, cell.place), self._behind(cell.slot))
        reads = {"a": Access(self._beside_high, own), "b": Access(self._beside_high, carry)}
        a, b, shift = network.common_multipliers(1, 1, self._operator)
        target = target_of(self._operator, network)
        high, low = network.activation("a"), network.activation("b")
        expr = added(high, self._zero, a, low, 0, b, shift, target, network.from_activations)
        result = Access(self._y, axis.index(axis.result(run)))
        return self._nest(name, axis.trips(run, self._between), reads, result, expr)

    # -- nests ---------------------------------------------------------------------------------------------------------

    def _nest(self, name: str, trips: Sequence[int], reads: Mapping[str, Access], result: Access, expr: Expr) -> Nest:
        name = f"{self._operator.name}.{name}"
        return Nest(name, self._operator.nodes, result_loops(trips), reads, result, expr, 0)

    def _copy(self, name: str, trips: Sequence[int], read: Access, result: Access) -> Nest:
        return self._nest(name, trips, {"a": read}, result, self._network.activation("a"))

    def _blended(
        self, tensor: str, axis: BlendAxis, blend: Blend, zero: int, factor: float, whole: float, target: Target
    ) -> tuple[dict[str, Access], Expr]:
        """Two elements with their weights times a factor, or the one whose weight is not 0 times another."""
        weights, network = blend.weights, self._network
        first, second = network.activation("a"), network.activation("b")
        reads = {leaf: Access(tensor, axis.index(axis.read(blend.run, place))) for place, leaf in enumerate(("a", "b"))}
        if all(weights):
            a, b, shift = network.common_multipliers(weights[0] * factor, weights[1] * factor, self._operator)
            blended = added(first, zero, a, second, zero, b, shift, target, network.from_activations)
            return reads, blended
        only = reads["a" if weights[0] else "b"]
        scales, shifts = network.multipliers(np.array([whole]), network.from_activations, self._operator)
        expr = rescaled(first, zero, int(scales[0]), int(shifts[0]), target, network.from_activations)
        return {"a": only}, expr

    def _product(
        self, name: str, axis: BlendAxis, run: IndexRun, values: NDArray[np.int64], vector: str, result: Access,
        bias: int, factor: float, target: Target | None,
    ) -> Nest:  # fmt: skip
        """A sum of products with one matrix: two taps of channels that lie side by side."""
        name, network, channels = f"{self._operator.name}.{name}", self._network, self._channels
        weight = network.arithmetic.weight
        terms = terms_of(values, weight)
        over_terms = (affine(("t", 1)),) * (len(terms) > 1)
        stored = network.add_constant(f"{name}.weight", terms[0] if len(terms) == 1 else np.stack(terms, TERM), weight)
        band = (affine(), affine(("o", -1), ("i", 1)))
        product = Product(
            (values.shape[1] - 1 + channels, *values.shape[ROW:]),
            Access(stored, (*band, *over_terms, affine(("r", 1)), affine(("s", 1))), outside=0),
            axis.trips(run, self._image if axis is self._first else self._between),
            Access(vector, axis.index(axis.window(run), affine(("i", 1)))),
            result,
            np.full(channels, bias, np.int64),
            np.full(channels, factor),
            np.repeat(sum_bounds(values, network), channels, axis=1),
            target=target,
        )
        return product_nest(name, self._operator, product, 0, network)

    def _matrix(self, axis: BlendAxis, blocks: Mapping[int, tuple[int, ...]]) -> NDArray[np.int64]:
        """Weights of two taps for a channel and for those side by side with it, as the band [1, channel, R, S]."""
        values = np.zeros((self._apart * max(blocks) + 1, 2), np.int64)
        for block, weights in blocks.items():
            values[self._apart * block] = weights
        return values.reshape((1, -1, 2, 1) if axis.dimension == ROW else (1, -1, 1, 2))

    def _behind(self, slot: int) -> Affine:
        return affine(("o", 1), constant=self._apart * (slot + 1))

    def _side_by_side(self, name: str, shape: Sequence[int], slots: int) -> str:
        batches, _, height, width = shape
        return self._network.add_buffer(name, (batches, self._apart * (slots + 1), height, width))
