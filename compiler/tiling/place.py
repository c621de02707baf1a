"""Where a tensor lies in DRAM: in one buffer, or with parts that lie in others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.compiler.tiling.layout import DramBox, DramLayout


@dataclass(frozen=True)
class InDram:
    """A tensor in DRAM, and the on-chip memory into which its tiles are loaded.

    Each of its `parts` is a place of its own: its layout says which indices of the tensor lie there.
    """

    buffer: str
    layout: DramLayout
    memory: str
    parts: tuple[InDram, ...] = ()

    def pieces(self, box: DramBox) -> list[tuple[InDram, DramBox]]:
        """A box of the tensor as boxes that each lie in one buffer."""
        pieces, rest = [], [box]
        for part in self.parts:
            inside = [(part, within) for each in rest if (within := _within(each, part.layout.box)) is not None]
            pieces += inside
            rest = [left for each in rest for left in _without(each, part.layout.box)]
        return [*pieces, *((replace(self, parts=()), each) for each in rest)]


def _within(box: DramBox, other: DramBox) -> DramBox | None:
    """What a box has in common with another; None if that is nothing."""
    batch, block, row, column = (
        range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, other, strict=True)
    )
    return (batch, block, row, column) if batch and block and row and column else None


def _without(box: DramBox, other: DramBox) -> list[DramBox]:
    """What a box has beside another, as boxes."""
    inside = _within(box, other)
    if inside is None:
        return [box]
    left, rest = [], list(box)
    for axis, common in enumerate(inside):
        for beside in (range(rest[axis].start, common.start), range(common.stop, rest[axis].stop)):
            if beside:
                batch, block, row, column = (beside if a == axis else each for a, each in enumerate(rest))
                left.append((batch, block, row, column))
        rest[axis] = common
    return left
