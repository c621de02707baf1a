"""A second vector engine is worth what it can be where the vector engine is the busiest."""

from __future__ import annotations

import pytest

from tests.schedules.vectors import ONE, TWO, measured

WITHIN = 1.15
"""Cycles by those of the bound."""


@pytest.mark.slow
def test_two_vector_engines_come_close_to_half_of_what_one_works() -> None:
    one, two = measured(ONE), measured(TWO)

    assert one.vector > 0.98 * one.cycles  # it is the busiest engine, and nearly nothing else takes time
    assert one.vector // 2 <= two.cycles <= WITHIN * one.vector / 2
