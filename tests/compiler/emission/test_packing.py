"""Packing for size: no two living buffers share a word, and little is wasted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.emission.lives import life, overlaps
from tilewright.compiler.emission.lifetimes import live_lower_bound
from tilewright.compiler.emission.packing import pack


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
