"""Rows of masks: what they say never meets has no word in common."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.compiler.emission.mask_rows import MaskRows, row_pitch
from tilewright.compiler.tile.footprint import affine_mask

COLUMNS_0_1 = affine_mask(2, ((3, 8),))[1]  # of rows of 8 words, rows 0 to 2
COLUMNS_4_5 = affine_mask(2, ((9, 8),))[1]


def may_meet(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None, distance: int, length: int = 20) -> bool:
    """Asked twice, since the second answer is one that is known."""
    rows = MaskRows()
    mine = rows.form(length if one is None else len(one), one)
    theirs = np.array([rows.form(length if other is None else len(other), other)] * 2)
    first, second = (rows.may_meet(mine, theirs, np.array([distance, distance])) for _ in range(2))
    assert set(first) == set(second) == {first[0]}
    return bool(first[0])


def test_other_columns_never_meet() -> None:
    assert not may_meet(COLUMNS_0_1, COLUMNS_4_5, 8 - 4)  # row 1, where the other one's column 4 is column 0 of its own


def test_the_same_columns_may_meet() -> None:
    assert may_meet(COLUMNS_0_1, COLUMNS_4_5, 8)


def test_all_words_up_to_a_length_may_meet_anything() -> None:
    assert may_meet(COLUMNS_0_1, None, 3)


@pytest.mark.parametrize(
    ("block", "loops", "pitch"),
    [
        (2, ((3, 8),), 8),
        (1, ((3, 2), (4, 20)), 20),
        (1, ((3, 2),), 2),
        (4, (), 4),
    ],
)
def test_a_row_ends_where_the_distance_changes(block: int, loops: tuple[tuple[int, int], ...], pitch: int) -> None:
    assert row_pitch(affine_mask(block, loops)[1]) == pitch


@pytest.mark.parametrize("seed", range(4))
def test_never_says_of_two_with_a_common_word_that_they_have_none(seed: int) -> None:
    random = np.random.default_rng(seed)
    masks = [_random_mask(random) for _ in range(12)]
    rows = MaskRows()
    forms = [rows.form(len(mask), None if mask.all() else mask) for mask in masks]
    for _ in range(40):
        one, others = int(random.integers(12)), random.integers(12, size=12)
        distances = random.integers(-30, 30, 12)
        asked = np.array([forms[other] for other in others.tolist()])
        answers = rows.may_meet(forms[one], asked, distances)
        words = set(np.flatnonzero(masks[one]).tolist())
        for other, distance, answer in zip(others.tolist(), distances.tolist(), answers.tolist(), strict=True):
            theirs = set((np.flatnonzero(masks[other]) - distance).tolist())
            assert answer or not words & theirs, (seed, one, other, distance)


def _random_mask(random: np.random.Generator) -> NDArray[np.bool_]:
    loops = [(int(random.integers(1, 5)), int(random.integers(1, 12))) for _ in range(random.integers(0, 3))]
    return affine_mask(int(random.integers(1, 4)), tuple(loops))[1]
