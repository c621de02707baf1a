"""How tensors lie: channel blocks of pixels on chip, words in DRAM, and the pixels around a tensor that hold padding.

A word of the activation memory holds `lanes` channels of one pixel; lane block L is channels L·lanes and up. On chip,
`group` lane blocks of a pixel are consecutive words, because the array takes them in one access.

Example, group 2, 5 lane blocks, a plane of 3×4 pixels: block 3 of pixel (1, 2) is at (3 // 2)·24 + (1·4 + 2)·2 + 3 % 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW


@dataclass(frozen=True, slots=True)
class Layout:
    """A box of a tensor in an on-chip memory: word address by (batch, lane block, row, column) of the tensor.

    The box begins at `first_…` (rows and columns may be negative: padding). Rows are `pitch` pixels apart and a plane
    has `plane` pixels, which may be fewer than whole rows.
    """

    group: int
    first_batch: int
    batches: int
    first_block: int
    blocks: int
    first_row: int
    first_column: int
    pitch: int
    plane: int

    @property
    def groups(self) -> int:
        return -(-self.blocks // self.group)

    @property
    def column_stride(self) -> int:
        return self.group

    @property
    def row_stride(self) -> int:
        return self.group * self.pitch

    @property
    def group_stride(self) -> int:
        return self.group * self.plane

    @property
    def batch_stride(self) -> int:
        return self.groups * self.group_stride

    @property
    def words(self) -> int:
        return self.batches * self.batch_stride

    def address(self, batch: int, block: int, row: int, column: int) -> int:
        """The word of lane block `block` of a pixel, from the buffer's start."""
        group, in_group = divmod(block - self.first_block, self.group)
        plane = (batch - self.first_batch) * self.groups + group
        pixel = (row - self.first_row) * self.pitch + column - self.first_column
        return (plane * self.plane + pixel) * self.group + in_group


@dataclass(frozen=True, slots=True)
class Border:
    """Pixels of padding around a tensor."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    def union(self, other: Border) -> Border:
        return Border(
            max(self.top, other.top),
            max(self.bottom, other.bottom),
            max(self.left, other.left),
            max(self.right, other.right),
        )


def bordered_layout(shape: tuple[int, ...], lanes: int, group: int, border: Border) -> Layout:
    """A whole tensor [N, C, H, W] with padding around each plane.

    The padding right of a row is the padding left of the next: 4 columns with 1 pixel on both sides are 5 apart.
    """
    batches, channels, height, width = shape
    pitch = width + max(border.left, border.right)
    plane = (border.top + height + border.bottom - 1) * pitch + border.left + width + border.right
    blocks = -(-channels // lanes)
    return Layout(group, 0, batches, 0, blocks, -border.top, -border.left, pitch, plane)


def box_layout(group: int, batch: range, blocks: range, rows: range, columns: range) -> Layout:
    """A dense box of a tensor."""
    return Layout(
        group, batch.start, len(batch), blocks.start, len(blocks), rows.start, columns.start, len(columns),
        len(rows) * len(columns),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PixelRuns:
    """`count` runs of `length` consecutive pixels of a plane, `step` pixels apart, the first at pixel `first`."""

    first: int
    count: int
    step: int
    length: int


def outside_runs(layout: Layout, rows: range, columns: range) -> list[PixelRuns]:
    """The pixels of a box's plane that are not in `rows` × `columns` of the tensor.

    Before the first inner row, between the rows, and after the last: at most three.
    """
    if not rows or not columns:
        return [PixelRuns(0, 1, 0, layout.plane)]
    begin = (rows.start - layout.first_row) * layout.pitch + columns.start - layout.first_column
    end = begin + (len(rows) - 1) * layout.pitch + len(columns)
    runs = [
        PixelRuns(0, 1, 0, begin),
        PixelRuns(begin + len(columns), len(rows) - 1, layout.pitch, layout.pitch - len(columns)),
        PixelRuns(end, 1, 0, layout.plane - end),
    ]
    return [run for run in runs if run.count > 0 and run.length > 0]


DramBox = tuple[range, range, range, range]
"""Batches, lane blocks, rows and columns of a tensor."""


@dataclass(frozen=True, slots=True)
class DramLayout:
    """A tensor [N, C, H, W] in DRAM: [N, lane blocks, H, W, lanes], C order; addresses in bytes.

    If it is a part of another tensor, `first` is where it begins there: batch, lane block, row and column. Addresses
    are then asked for by the indices of the other tensor.
    """

    shape: tuple[int, ...]
    lanes: int
    word_bytes: int
    first: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def blocks(self) -> int:
        return -(-self.shape[CHANNEL] // self.lanes)

    @property
    def column_stride(self) -> int:
        return self.word_bytes

    @property
    def row_stride(self) -> int:
        return self.word_bytes * self.shape[COLUMN]

    @property
    def block_stride(self) -> int:
        return self.row_stride * self.shape[ROW]

    @property
    def batch_stride(self) -> int:
        return self.block_stride * self.blocks

    @property
    def bytes(self) -> int:
        return self.batch_stride * self.shape[BATCH]

    def address(self, batch: int, block: int, row: int, column: int) -> int:
        first_batch, first_block, first_row, first_column = self.first
        return (
            (batch - first_batch) * self.batch_stride
            + (block - first_block) * self.block_stride
            + (row - first_row) * self.row_stride
            + (column - first_column) * self.column_stride
        )

    @property
    def box(self) -> DramBox:
        """All of it: batches, lane blocks, rows and columns."""
        sizes = (self.shape[BATCH], self.blocks, self.shape[ROW], self.shape[COLUMN])
        batch, block, row, column = (range(first, first + size) for first, size in zip(self.first, sizes, strict=True))
        return batch, block, row, column


# -- places in DRAM: in one buffer, or with parts that lie in others ---------------------------------------------------


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
