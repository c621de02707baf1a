"""Where elements go when a tensor is reshaped and transposed again and again: factors of its size in a new order.

Example: [2, 6] → reshape [2, 3, 2] → transpose (0, 2, 1) → reshape [4, 3]. The factors are 2, 3, 2, and in the result
they stand as 0, 2, 1: as long as every cut falls between factors, no chain is more than one such order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.compiler.graph.graph import CHANNEL

Groups = tuple[tuple[int, ...], ...]
"""For each dimension of a shape the positions of its factors, outermost first."""


@dataclass(frozen=True, slots=True)
class ElementOrder:
    """A tensor's elements as the indices of factors `sizes`, outermost first, and the order of these in another one.

    Factor j of the result is factor axes[j] of the source; no factor is 1.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def is_same(self) -> bool:
        """Whether every element stays where it is."""
        return self.axes == tuple(range(len(self.axes)))

    @property
    def result_sizes(self) -> tuple[int, ...]:
        return tuple(self.sizes[axis] for axis in self.axes)

    def transposed(self, shape: Sequence[int], axes: Sequence[int]) -> ElementOrder | None:
        """The order once the result, seen as this shape, is transposed; None if the shape cuts through a factor."""
        cut = self.cut_as_result(shape)
        if cut is None:
            return None
        groups = cut.result_groups(shape)
        return ElementOrder(cut.sizes, tuple(cut.axes[j] for axis in axes for j in groups[axis])).merged()

    def cut_as_result(self, shape: Sequence[int]) -> ElementOrder | None:
        """The same with factors so small that each dimension of the result's shape is a product of some."""
        pieces = _cut(self.result_sizes, shape)
        return None if pieces is None else self._split(dict(zip(self.axes, pieces, strict=True)))

    def cut_as_source(self, shape: Sequence[int]) -> ElementOrder | None:
        """The same for the source's shape."""
        pieces = _cut(self.sizes, shape)
        return None if pieces is None else self._split(dict(enumerate(pieces)))

    def result_groups(self, shape: Sequence[int]) -> Groups:
        """For each dimension of the result the positions j in `axes` that make it; the factors must be cut for it."""
        return _groups(self.result_sizes, shape)

    def source_groups(self, shape: Sequence[int]) -> Groups:
        """For each dimension of the source the positions in `sizes` that make it; the factors must be cut for it."""
        return _groups(self.sizes, shape)

    def merged(self) -> ElementOrder:
        """The same with as few factors as can be."""
        runs: list[list[int]] = []
        for axis in self.axes:
            if runs and axis == runs[-1][-1] + 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        ordered = sorted(runs)
        sizes = tuple(prod(self.sizes[axis] for axis in run) for run in ordered)
        return ElementOrder(sizes, tuple(ordered.index(run) for run in runs))

    def _split(self, pieces: dict[int, tuple[int, ...]]) -> ElementOrder:
        """The same with each factor cut into pieces."""
        firsts: dict[int, int] = {}
        sizes: list[int] = []
        for position in range(len(self.sizes)):
            firsts[position] = len(sizes)
            sizes += pieces[position]
        axes = [firsts[axis] + piece for axis in self.axes for piece in range(len(pieces[axis]))]
        return ElementOrder(tuple(sizes), tuple(axes))


def effort(order: ElementOrder | None, source: Sequence[int], result: Sequence[int]) -> int:
    """How much work it is to bring a stored tensor into an order and shape, both [N, C, H, W]: from 0, none, to 4.

    1 is copies, where the innermost channels stay innermost; 3 an exchange of channels and pixels.
    """
    if order is None:
        return 4
    if order.is_same and tuple(source) == tuple(result):
        return 0
    cut = order.cut_as_source(source)
    cut = None if cut is None else cut.cut_as_result(result)
    if cut is None:
        return 4
    before = cut.source_groups(source)[CHANNEL]
    after = [cut.axes[j] for j in cut.result_groups(result)[CHANNEL]]
    return 1 if list(before[-1:]) == after[-1:] else 3


def keeps_channels(order: ElementOrder, source: Sequence[int], result: Sequence[int]) -> bool:
    """Whether the channels of a stored tensor, [N, C, H, W], are those of the result, in the same order."""
    cut = order.cut_as_source(source)
    cut = None if cut is None else cut.cut_as_result(result)
    if cut is None:
        return False
    return list(cut.source_groups(source)[CHANNEL]) == [cut.axes[j] for j in cut.result_groups(result)[CHANNEL]]


def same_order(shape: Sequence[int]) -> ElementOrder:
    """The order that leaves every element of a tensor where it is."""
    size = prod(shape)
    return ElementOrder(() if size == 1 else (size,), () if size == 1 else (0,))


def order_of(shape: Sequence[int], axes: Sequence[int]) -> ElementOrder:
    """The order that a transposition of a shape makes."""
    made = same_order(shape).transposed(shape, axes)
    assert made is not None  # one factor can be cut in any way
    return made


def _cut(sizes: Sequence[int], shape: Sequence[int]) -> list[tuple[int, ...]] | None:
    """Each factor cut into pieces, none across the end of a dimension; None where that is impossible."""
    pieces: list[tuple[int, ...]] = []
    rest = 1
    dimensions = iter([size for size in shape if size != 1])
    for size in sizes:
        taken: tuple[int, ...] = ()
        while size > 1:
            rest = next(dimensions) if rest == 1 else rest
            if size % rest and rest % size:
                return None
            piece = min(size, rest)
            taken, size, rest = (*taken, piece), size // piece, rest // piece
        pieces.append(taken)
    return pieces


def _groups(sizes: Sequence[int], shape: Sequence[int]) -> Groups:
    groups, position = [], 0
    for size in shape:
        first = position
        while size > 1:
            size //= sizes[position]
            position += 1
        groups.append(tuple(range(first, position)))
    return tuple(groups)
