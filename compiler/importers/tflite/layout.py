"""Where channels stand: last, as in the file, or right after the batch, as ONNX's operators have them.

Example: [1, 6, 8, 3] is stored as [1, 3, 6, 8]; axis 1 of the file (the height) is then axis 2, axis 3 is axis 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar, assert_never

Item = TypeVar("Item")


class DimensionOrder(Enum):
    """How a tensor of the file is stored in the ONNX model. They differ from three dimensions on."""

    LAST = "channels last"
    FIRST = "channels first"

    @property
    def other(self) -> DimensionOrder:
        match self:
            case DimensionOrder.LAST:
                return DimensionOrder.FIRST
            case DimensionOrder.FIRST:
                return DimensionOrder.LAST
            case _:
                assert_never(self)


def to_stored(rank: int, layout: DimensionOrder) -> tuple[int, ...]:
    """For each stored dimension, which of the file's it is: (0, 3, 1, 2) for four, channels first."""
    if layout is DimensionOrder.LAST or rank < 3:
        return tuple(range(rank))
    return (0, rank - 1, *range(1, rank - 1))


def to_file(rank: int, layout: DimensionOrder) -> tuple[int, ...]:
    """For each of the file's dimensions, which of the stored it is: (0, 2, 3, 1) for four, channels first."""
    order = to_stored(rank, layout)
    return tuple(order.index(axis) for axis in range(rank))


def stored(items: Sequence[Item], layout: DimensionOrder) -> tuple[Item, ...]:
    """A list with one item for each of the file's dimensions, in the order of the stored ones."""
    return tuple(items[axis] for axis in to_stored(len(items), layout))


def keeps_order(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether a transposition moves only dimensions of size 1, so that all elements stay in order."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)
