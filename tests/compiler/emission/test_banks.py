"""Legal addresses: aligned, with no group across two banks."""

from __future__ import annotations

from tilewright.compiler.emission.banks import legal_address
from tilewright.compiler.tile.program import TileBuffer


def test_aligned_groups_stay_in_one_bank() -> None:
    # Banks of 10 words, groups of 4: the boundary at 10 is not a multiple of 4, that at 20 is.
    buffer = TileBuffer("a", "act", 8, 4)
    assert legal_address(buffer, 0, 10) == 0
    assert legal_address(buffer, 1, 10) == 12
    assert legal_address(TileBuffer("b", "act", 4, 4), 5, 10) == 12
    assert legal_address(TileBuffer("c", "act", 12, 4), 0, 10) == 12


def test_a_buffer_that_is_read_in_blocks_is_in_one_bank() -> None:
    # Banks of 10 words: at 3, seven words end with the bank; from 4 on they begin with the next. No bank holds eleven.
    def place(size: int, lowest: int) -> int | None:
        return legal_address(TileBuffer("a", "act", size, is_in_bank=True), lowest, 10)

    assert [place(7, 3), place(7, 4), place(10, 1), place(11, 0)] == [3, 10, 10, None]
