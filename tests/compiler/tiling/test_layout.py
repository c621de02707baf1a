"""Layouts: addresses by hand, and padding as everything that is not the tensor."""

from __future__ import annotations

from itertools import product

import pytest

from tilewright.compiler.tiling.layout import (
    Border,
    DramLayout,
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
