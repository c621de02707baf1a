"""Lifetimes: how much is alive at once, and what is read together."""

from __future__ import annotations

from tests.compiler.emission.lives import life
from tilewright.compiler.emission.lifetimes import live_lower_bound


def test_lower_bound_is_the_most_alive_at_once() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    assert live_lower_bound(items) == 6
