"""A computed matrix in DRAM as runs of pixels that loads can take, and how such a run is cut by weight tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.tiling.layout import InDram


@dataclass(frozen=True, slots=True)
class WordRun:
    """Words of some lane blocks and pixels, at equal distances in one buffer; strides and `first` are in bytes.

    `blocks` and `pixels` count from the first that were asked for.
    """

    buffer: str
    first: int
    blocks: range
    pixels: range
    block_stride: int
    pixel_stride: int


def runs(home: InDram, batch: int, blocks: range, row: int, column: int, pixels: range, is_row: bool) -> list[WordRun]:
    """Lane blocks of a tensor's pixels, `pixels` behind a row or else behind a column: a run for each buffer."""
    along = range((row if is_row else column) + pixels.start, (row if is_row else column) + pixels.stop)
    rows, columns = (along, range(column, column + 1)) if is_row else (range(row, row + 1), along)
    found = []
    for piece, box in home.pieces((range(batch, batch + 1), blocks, rows, columns)):
        layout, (_, own, own_rows, own_columns) = piece.layout, box
        there = own_rows if is_row else own_columns
        found.append(
            WordRun(
                piece.buffer,
                layout.address(batch, own.start, own_rows.start, own_columns.start),
                range(own.start - blocks.start, own.stop - blocks.start),
                range(there.start - along.start, there.stop - along.start),
                layout.block_stride,
                layout.row_stride if is_row else layout.column_stride,
            )
        )
    return found


def in_tiles(pixels: range, rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Pixels cut where tiles of so many begin: first tile, the row in it, and how many tiles of how many rows.

    Example, pixels 5 to 39 and 16 rows: 11 from row 5 of tile 0 on, tile 1, and the first 8 of tile 2.
    """
    at = pixels.start
    while at < pixels.stop:
        tile, row = divmod(at, rows)
        whole = 0 if row else (pixels.stop - at) // rows
        count, there = (whole, rows) if whole else (1, min(rows - row, pixels.stop - at))
        yield tile, row, count, there
        at += count * there
