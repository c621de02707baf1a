"""Layouts: addresses by hand, and padding as everything that is not the tensor."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilewright.compiler.tiling.layout import (
    Border,
    DramBox,
    DramLayout,
    InDram,
    Layout,
    PixelRuns,
    bordered_layout,
    box_layout,
    outside_runs,
)


def test_lays_groups_of_blocks_together() -> None:
    layout = box_layout(2, range(1), range(5), range(3), range(4))
    assert layout.address(0, 3, 1, 2) == 3 // 2 * 24 + (1 * 4 + 2) * 2 + 3 % 2
    assert layout.words == 3 * 24  # three groups, the last half empty


def test_shares_the_padding_between_rows() -> None:
    layout = bordered_layout((1, 16, 3, 4), lanes=16, group=1, border=Border(1, 1, 1, 1))
    assert layout.pitch == 5
    assert layout.address(0, 0, 0, -1) == layout.address(0, 0, -1, 4)  # left of a row is right of the one above


@pytest.mark.parametrize("border", [Border(), Border(1, 1, 1, 1), Border(2, 0, 0, 3), Border(0, 1, 2, 0)])
def test_padding_is_every_pixel_that_is_not_the_tensor(border: Border) -> None:
    layout = bordered_layout((1, 16, 3, 4), lanes=16, group=1, border=border)
    inside = {layout.address(0, 0, y, x) for y, x in product(range(3), range(4))}
    runs = outside_runs(layout, range(3), range(4))
    outside = [pixel for run in runs for pixel in pixels(run)]
    assert sorted([*outside, *inside]) == list(range(layout.plane))


def test_every_address_of_the_padded_tensor_is_in_its_plane() -> None:
    layout = bordered_layout((1, 16, 3, 4), lanes=16, group=1, border=Border(1, 2, 1, 3))
    reached = [layout.address(0, 0, y, x) for y, x in product(range(-1, 5), range(-1, 7))]
    assert min(reached) == 0
    assert max(reached) == layout.plane - 1


def test_a_box_without_a_pixel_of_the_tensor_is_all_padding() -> None:
    layout = box_layout(1, range(1), range(1), range(-3, -1), range(4))
    assert outside_runs(layout, range(0), range(4)) == [PixelRuns(0, 1, 0, 8)]


def test_dram_has_the_lanes_innermost() -> None:
    layout = DramLayout((2, 20, 3, 4), lanes=16, word_bytes=16)
    assert layout.address(1, 1, 2, 3) == (((1 * 2 + 1) * 3 + 2) * 4 + 3) * 16
    assert layout.bytes == 2 * 2 * 3 * 4 * 16


def pixels(run: PixelRuns) -> list[int]:
    return [run.first + i * run.step + j for i in range(run.count) for j in range(run.length)]


def test_batches_and_groups_never_overlap() -> None:
    layout = Layout(2, 0, 2, 0, 3, -1, 0, 5, 21)
    addresses = [layout.address(n, b, y, x) for n, b, y, x in product(range(2), range(3), range(3), range(5))]
    assert len(set(addresses)) == len(addresses)
    assert max(addresses) < layout.words


def place(name: str, shape: tuple[int, ...], first: tuple[int, int, int, int] = (0, 0, 0, 0)) -> InDram:
    return InDram(name, DramLayout(shape, 4, 4, first), "act")


WHOLE = InDram(
    "whole",
    DramLayout((2, 12, 5, 6), 4, 4),
    "act",
    (place("left", (2, 12, 5, 3)), place("corner", (1, 8, 2, 2), (1, 1, 3, 4))),
)
"""The left half lies elsewhere, and a box of channels 4 to 11 in the last corner of the second image."""


def buffer_of(batch: int, block: int, row: int, column: int) -> str:
    if column < 3:
        return "left"
    return "corner" if batch == 1 and block >= 1 and row >= 3 and column >= 4 else "whole"


def test_each_word_is_in_one_piece_and_in_its_buffer() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        ends = [sorted(rng.integers(0, size + 1, 2)) for size in (2, 3, 5, 6)]
        box: DramBox = tuple(range(int(a), int(b)) for a, b in ends)  # type: ignore[assignment]
        found = {index: piece.buffer for piece, within in WHOLE.pieces(box) for index in product(*within)}
        assert found == {index: buffer_of(*index) for index in product(*box)}
        assert sum(len(list(product(*within))) for _, within in WHOLE.pieces(box)) == len(found)


def test_a_part_is_addressed_by_the_indices_of_the_whole() -> None:
    """The second row of the corner's second lane block: 2 · 2 words of its first block, then 2 of a row."""
    layout = WHOLE.parts[1].layout
    assert layout.box == (range(1, 2), range(1, 3), range(3, 5), range(4, 6))
    assert layout.address(1, 2, 4, 5) == (4 + 2 + 1) * 4
    assert layout.address(1, 1, 3, 4) == 0


def test_without_parts_a_box_is_one_piece() -> None:
    box = (range(1), range(3), range(2, 4), range(6))
    assert place("plain", (1, 12, 5, 6)).pieces(box) == [(place("plain", (1, 12, 5, 6)), box)]
