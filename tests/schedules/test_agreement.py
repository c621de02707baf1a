"""The analytic model ranks tilings of a layer as the exact one does."""

from __future__ import annotations

import pytest

from tests.schedules.agreement import KINDS, measured, rank_correlation
from tilewright.isa.files.loader import load_machine

LEAST = 0.9
"""Of few tilings; `python -m tests.schedules.agreement` prints the correlation of 200."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "convolution 3x3",
        "convolution 1x1, many channels",
        "dense",
        "sum of two tensors",
        "largest of a window",
        "rescale",
    ],
)
def test_ranks_tilings_as_the_exact_model_does(kind: str) -> None:
    assert kind in KINDS
    expected, _, exact, _ = measured(kind, load_machine("base16"), 40)
    assert rank_correlation(expected, exact) >= LEAST
