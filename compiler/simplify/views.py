"""Tensors of more than four dimensions, seen as four: consecutive dimensions are joined, and elements stay in order.

Example: channels in two groups, [1, 2, 8, 6, 6], are [1, 16, 6, 6]. To take the second group takes channels 8 … 15.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, product
from math import prod

from tilewright.compiler.simplify.binary import MOST_DIMENSIONS

Groups = tuple[range, ...]
"""For each dimension of a view the dimensions that it joins."""


def groups_of_four(
    shape: Sequence[int], wanted: Sequence[int] = (), outermost: Collection[int] = (), alone: Collection[int] = ()
) -> Groups | None:
    """How to join dimensions to four: to the `wanted` shape if that is possible, else the first ones.

    The axes in `outermost` must have no other before them in their group, and those in `alone` no other at all; sizes
    of 1 do not count. None where no way has this.
    """

    def fits(groups: Groups) -> bool:
        for group in groups:
            real = [axis for axis in group if shape[axis] != 1 or axis in (*outermost, *alone)]
            if any(axis in outermost for axis in real[1:]) or (len(real) > 1 and any(axis in alone for axis in real)):
                return False
        return True

    counts = range(MOST_DIMENSIONS - 1, -1, -1)
    cuts = (cut for count in counts for cut in combinations(range(len(shape) - 1, 0, -1), count))
    ways = [_groups(sorted(cut), len(shape)) for cut in cuts]
    possible = [groups for groups in ways if fits(groups)]
    return min(possible, key=lambda groups: joined_shape(shape, groups) != tuple(wanted), default=None)


def _groups(cuts: Sequence[int], rank: int) -> Groups:
    return tuple(range(first, last) for first, last in zip((0, *cuts), (*cuts, rank), strict=True))


def joined_shape(shape: Sequence[int], groups: Groups) -> tuple[int, ...]:
    """The shape of the view."""
    return tuple(prod(shape[axis] for axis in group) for group in groups)


def joined_indices(
    taken: Mapping[int, Sequence[int]], shape: Sequence[int], groups: Groups
) -> dict[int, tuple[int, ...]]:
    """Indices along dimensions as indices along those of the view: of the dimensions that some are taken of."""
    found = {}
    for position, group in enumerate(groups):
        if not any(axis in taken for axis in group):
            continue
        each = (taken.get(axis, range(shape[axis])) for axis in group)
        steps = [prod(shape[inner] for inner in group if inner > axis) for axis in group]
        found[position] = tuple(
            sum(index * step for index, step in zip(indices, steps, strict=True)) for indices in product(*each)
        )
    return found
