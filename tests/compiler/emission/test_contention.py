"""Contention: who reads or writes the same memory at the same time, by cycles counted by hand."""

from __future__ import annotations

import numpy as np

from tests.compiler.tile_programs import WORDS, TileBuilder
from tilewright.compiler.emission.contention import contention
from tilewright.isa.files.loader import load_machine


def builder() -> TileBuilder:
    return TileBuilder(load_machine("base16"), np.random.default_rng(0))


def test_operands_of_one_operation_are_read_together() -> None:
    build = builder()
    a, b, y = (build.buffer("act", WORDS) for _ in range(3))
    build.add(a, b, to=y)
    assert contention(build.program()) == {a: {b: 2 * WORDS}, b: {a: 2 * WORDS}}


def test_engines_contend_while_both_run() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 64) for _ in range(3))
    build.run("rescale", {"trip.k": 40, "a.k": 1, "y.k": 1}, a=x, y=y)
    build.run("rescale", {"trip.k": 40, "a.k": 1, "y.k": 1}, a=x, y=y)
    build.run("store_act", {"trip.k": 64, "y.k": 1, "d.k": 16}, y=z, d=build.buffer("workspace", 1024))
    # The store starts with the second statement, in cycle 40, and takes longer.
    assert contention(build.program()) == {x: {z: 40}, z: {x: 40}}


def test_a_read_and_a_write_use_two_ports() -> None:
    build = builder()
    x, y = build.load_input(), build.buffer("act", WORDS)
    build.run("copy", {"trip.k": WORDS, "a.k": 1, "y.k": 1}, a=y, y=build.buffer("act", WORDS))
    assert x not in contention(build.program()).get(y, {})
