"""Meetings: two sets of words have one in common exactly when the sets, word for word, have."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.emission.kernels import meetings
from tilewright.compiler.tile.accesses import Mask, WordForms, affine_mask
from tilewright.isa.kernels.kernel import kept_on_disk

have_common_word, meet = kept_on_disk(meetings.have_common_word), kept_on_disk(meetings.meet)

COLUMNS_0_1 = affine_mask(2, ((3, 8),))  # of rows of 8 words, rows 0 to 2
COLUMNS_4_5 = affine_mask(2, ((9, 8),))


def forms(*masks: Mask) -> WordForms:
    return WordForms.of([edges for _, _, edges in masks], [len(words) for _, words, _ in masks])


def answer(one: Mask, other: Mask, distance: int) -> bool:
    """Asked from both sides, and of accesses twice, since the second answer is one that is known."""
    own = forms(one, other)
    found = bool(have_common_word(*own, 0, 1, distance))
    assert found == have_common_word(*own, 1, 0, -distance)
    known = np.full((7, 4), -1)
    first, form = np.array([100, 100 + distance]), np.array([0, 1])
    for _ in range(2):
        assert found == meet(first, form, *own, known, 0, 1) == meet(first, form, *own, known, 1, 0)
    return found


def test_other_columns_never_meet() -> None:
    assert not answer(COLUMNS_0_1, COLUMNS_4_5, 4 - 8)  # row 1, where the other one's column 4 is column 0 of its own


def test_the_same_columns_meet() -> None:
    assert answer(COLUMNS_0_1, COLUMNS_4_5, 8)


def test_all_words_up_to_a_length_meet_anything() -> None:
    assert answer(COLUMNS_0_1, affine_mask(20, ()), -3)


@pytest.mark.parametrize(
    ("block", "loops", "between"),
    [
        (2, ((3, 8),), 6),
        (1, ((3, 2), (4, 20)), 1),
        (1, ((3, 2),), 1),
        (4, (), 0),
    ],
)
def test_what_lies_between_the_runs_is_free(block: int, loops: tuple[tuple[int, int], ...], between: int) -> None:
    """Another that is as wide as the words between two runs fits there, and no wider one does."""
    one = affine_mask(block, loops)
    if between:
        assert not answer(one, affine_mask(between, ()), block)
    assert answer(one, affine_mask(between + 1, ()), block) == bool(loops)


@pytest.mark.parametrize("seed", range(4))
def test_answers_as_sets_of_words_do(seed: int) -> None:
    """Of many pairs of accesses, asked with few places for the answers that are known."""
    random = np.random.default_rng(seed)
    masks = [_random_mask(random) for _ in range(12)]
    own, known, answers = forms(*masks), np.full((5, 4), -1), set()
    for _ in range(2000):
        form, first = random.integers(12, size=2), random.integers(30, size=2)
        one, other = (
            {at + int(word) for word in np.flatnonzero(masks[number][1])}
            for number, at in zip(form.tolist(), first.tolist(), strict=True)
        )
        found = bool(meet(first, form, *own, known, 0, 1))
        assert found == bool(one & other), (seed, form, first)
        assert found == have_common_word(*own, form[0], form[1], first[1] - first[0]) or not found
        answers.add(found)
    assert answers == {False, True}


def _random_mask(random: np.random.Generator) -> Mask:
    loops = [(int(random.integers(1, 5)), int(random.integers(1, 12))) for _ in range(random.integers(0, 3))]
    return affine_mask(int(random.integers(1, 4)), tuple(loops))
