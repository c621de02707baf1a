"""Lifetimes: how much is alive at once, and what is read together."""

from __future__ import annotations

import numpy as np

from tests.compiler.emission.lives import life
from tests.compiler.tile_programs import TileBuilder
from tilewright.compiler.emission.lifetimes import buffer_lifetimes, live_lower_bound
from tilewright.isa.files.loader import load_machine


def test_lower_bound_is_the_most_alive_at_once() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    assert live_lower_bound(items) == 6


def test_operands_of_one_operation_are_known() -> None:
    builder = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    a, b, y = (builder.buffer("act", 4) for _ in range(3))
    builder.run("add", {}, a=a, b=b, y=y)
    lives = {item.buffer.name: item.read_with for item in buffer_lifetimes(builder.program())}
    assert lives == {a: {b}, b: {a}, y: frozenset()}
