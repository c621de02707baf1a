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
