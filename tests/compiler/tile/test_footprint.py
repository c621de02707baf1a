"""Footprints: equal to the words that a plain loop over all iterations touches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.tile.footprint import Footprint, affine_mask, operation_footprints, program_footprints
from tilewright.isa.files.loader import load_machine


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
    first, mask, is_whole = affine_mask(block, loops)
    assert is_whole == mask.all()
    assert {first + int(offset) for offset in np.flatnonzero(mask)} == words(block, loops)


def test_the_example_of_the_file() -> None:
    first, mask, _ = affine_mask(1, ((3, 1), (2, 8)))
    assert first == 0
    assert np.flatnonzero(mask).tolist() == [0, 1, 2, 8, 9, 10]


def test_those_of_a_program_are_those_of_its_operations() -> None:
    """Operations that differ only in their bases are among them."""
    tiles = random_tiles(load_machine("base16"), seed=1, steps=30)
    twice = replace(tiles, operations=(*tiles.operations, *tiles.operations))
    expected = [operation_footprints(twice.machine, operation) for operation in twice.operations]
    assert shown(program_footprints(twice)) == shown(expected)


def shown(footprints: Sequence[Sequence[Footprint]]) -> list[list[tuple[object, ...]]]:
    """All that footprints say, of each operation."""
    return [
        [(of.operand, of.buffer, of.is_read, of.is_write, of.first, of.mask.tolist()) for of in each]
        for each in footprints
    ]
