"""Footprints: equal to the words that a plain loop over all iterations touches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilewright.compiler.tile.footprint import affine_mask


def words(block: int, loops: tuple[tuple[int, int], ...]) -> set[int]:
    """Every word, one iteration after the other."""
    found = set()
    for indices in itertools.product(*(range(trip) for trip, _ in loops)):
        start = sum(index * stride for index, (_, stride) in zip(indices, loops, strict=True))
        found |= set(range(start, start + block))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_equals_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops = tuple((int(rng.integers(1, 8)), int(rng.integers(-9, 10))) for _ in range(rng.integers(0, 4)))
    block = int(rng.integers(1, 4))
    first, mask, edges = affine_mask(block, loops)
    assert edges.tolist() == [word for word in range(1, len(mask)) if mask[word] != mask[word - 1]]
    assert {first + int(offset) for offset in np.flatnonzero(mask)} == words(block, loops)


def test_the_example_of_the_file() -> None:
    first, mask, _ = affine_mask(1, ((3, 1), (2, 8)))
    assert first == 0
    assert np.flatnonzero(mask).tolist() == [0, 1, 2, 8, 9, 10]
