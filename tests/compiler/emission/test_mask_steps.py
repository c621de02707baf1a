"""Mask steps: the largest groups of bits that always go together."""

import numpy as np
import pytest

from tilewright.compiler.emission.mask_steps import MaskSteps


@pytest.mark.parametrize(
    ("bits", "step"),
    [
        ("0011 1100", 2),
        ("1111 0000 0000 1111", 4),
        ("111 000 111", 3),
        ("11 00 11 00 1", 1),  # the last group is half as long
        ("1 000 1", 1),
        ("1111", 4),
    ],
)
def test_finds_the_largest_groups_of_equal_bits(bits: str, step: int) -> None:
    mask = np.array([bit == "1" for bit in bits.replace(" ", "")])
    assert MaskSteps().of(mask) == step


def test_tells_masks_apart_that_exist_one_after_the_other() -> None:
    """Each is gone before the next is made, which would get its place in memory if nothing kept it."""
    steps, found = MaskSteps(), []
    for step in range(1, 65):
        mask = np.ones(3 * step, np.bool_)
        mask[step : 2 * step] = False
        found.append(steps.of(mask))
        del mask
    assert found == list(range(1, 65))
