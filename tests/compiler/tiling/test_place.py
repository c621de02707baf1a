"""Boxes of tensors whose parts lie in several buffers: each element is in one piece, the right one."""

from __future__ import annotations

from itertools import product

import numpy as np

from tilewright.compiler.tiling.layout import DramBox, DramLayout
from tilewright.compiler.tiling.place import InDram


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
