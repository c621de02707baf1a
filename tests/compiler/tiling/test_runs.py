"""Pixels of a matrix in DRAM as runs, one for each buffer, and cut where weight tiles begin."""

from __future__ import annotations

import pytest

from tilewright.compiler.tiling.layout import DramLayout, InDram
from tilewright.compiler.tiling.runs import WordRun, in_tiles, runs

CACHE = InDram("cache", DramLayout((2, 20, 1, 60), 16, 16), "act")
JOINED = InDram("joined", DramLayout((2, 20, 1, 65), 16, 16), "act", (CACHE,))


@pytest.mark.parametrize(
    ("pixels", "pieces"),
    [
        (range(0, 60), [(0, 0, 1, 48), (3, 0, 1, 12)]),
        (range(60, 65), [(3, 12, 1, 4), (4, 0, 1, 1)]),
        (range(5, 40), [(0, 5, 1, 11), (1, 0, 1, 16), (2, 0, 1, 8)]),
        (range(18, 20), [(1, 2, 1, 2)]),
    ],
)
def test_runs_are_cut_where_tiles_begin(pixels: range, pieces: list[tuple[int, int, int, int]]) -> None:
    made = list(in_tiles(pixels, 16))
    assert [
        pixel for tile, row, count, there in made for pixel in range(tile * 16 + row, tile * 16 + row + count * there)
    ] == list(pixels)
    assert all(row + there <= 16 and (count == 1 or (row, there) == (0, 16)) for _, row, count, there in made)
    joined = [(tile, row, 1, count * there) for tile, row, count, there in made]
    assert joined == pieces


def test_a_run_for_each_buffer() -> None:
    """Of the second head's two lane blocks, pixels 50 to 63: ten of the cache, four behind it."""
    found = runs(JOINED, 1, range(2), 0, 0, range(50, 64), is_row=False)
    assert found == [
        WordRun("cache", (2 * 60 + 50) * 16, range(2), range(10), 60 * 16, 16),
        WordRun("joined", (2 * 65 + 60) * 16, range(2), range(10, 14), 65 * 16, 16),
    ]


def test_rows_of_pixels_are_a_row_apart() -> None:
    plain = InDram("plain", DramLayout((1, 16, 8, 5), 16, 16), "act")
    assert runs(plain, 0, range(1), 2, 3, range(1, 4), is_row=True) == [
        WordRun("plain", (3 * 5 + 3) * 16, range(1), range(3), 40 * 16, 5 * 16)
    ]
