"""Packing for size: no two living buffers share a word, little is wasted, and addresses are legal in banks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.emission.lives import life, overlaps
from tilewright.compiler.emission.packing import legal_address, live_lower_bound, pack
from tilewright.compiler.tile.program import TileBuffer


def test_shares_words_only_after_the_last_use() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    addresses = pack(items)
    assert overlaps(items, addresses) == []
    assert max(addresses[item.buffer.name] + item.buffer.size for item in items) == 6


@pytest.mark.parametrize("seed", range(5))
def test_packs_near_the_lower_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = []
    for index in range(60):
        first = int(rng.integers(0, 100))
        items.append(life(f"b{index}", int(rng.integers(1, 50)), first, first + int(rng.integers(0, 20))))
    addresses = pack(items)
    assert overlaps(items, addresses) == []
    height = max(addresses[item.buffer.name] + item.buffer.size for item in items)
    assert height <= 1.25 * live_lower_bound(items)


@pytest.mark.parametrize("seed", range(10))
def test_names_decide_nothing(seed: int) -> None:
    """Of buffers that are equal to an order, the first one comes first, whatever they are called."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        firsts = np.sort(rng.integers(0, 6, 12))
        facts = [(int(rng.integers(1, 4)), int(first), int(first + rng.integers(0, 3))) for first in firsts]
        one, other = (
            [life(name, *fact) for name, fact in zip(names, facts, strict=True)]
            for names in ("abcdefghijkl", "lkjihgfedcba")
        )
        mine, theirs = pack(one), pack(other)
        assert [mine[item.buffer.name] for item in one] == [theirs[item.buffer.name] for item in other]


def test_lower_bound_is_the_most_alive_at_once() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    assert live_lower_bound(items) == 6


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
