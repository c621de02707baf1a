"""Durations: of an operation alone, as the cycle model has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.tile_programs import TileBuilder
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.durations import durations
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

CLOSE = 12
"""Cycles by which an estimate may be off."""


def expect_close(build: TileBuilder, index: int) -> None:
    program = build.program()
    binary = emit(waits(allocate(program)))
    counters = simulate_cycles(binary, place_regions(binary.limits))
    took = int(counters.retired[index] - counters.started[index])
    assert abs(durations(program)[index].complete - took) <= CLOSE, took


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("words", [1, 48, 300])
def test_of_a_load_of_consecutive_words(machine: str, words: int) -> None:
    build = TileBuilder(load_machine(machine), np.random.default_rng(0))
    size = build.machine.memories["wgt"].word_bytes
    to = build.buffer("wgt", words)
    build.run("load_wgt", {"trip.k": words, "d.k": size, "y.k": 1}, d="weights", y=to)
    expect_close(build, 0)


def test_of_a_load_of_single_words_is_that_of_its_bursts() -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    to = build.buffer("act", 160)
    build.run("load_act", {"trip.k": 160, "d.k": 3, "y.k": 1}, d="weights", y=to)
    assert durations(build.program())[0].busy == 160 * 70 // 16
    expect_close(build, 0)


@pytest.mark.parametrize("vectors", [4, 16, 100])
def test_of_a_product(vectors: int) -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    a, w, c = build.buffer("act", 4 * vectors), build.buffer("wgt", 48), build.buffer("acc", vectors)
    fields = {"trip.k": 3, "trip.x": vectors, "a.k": vectors, "a.x": 1, "w.k": 16, "c.x": 1}
    build.run("mma", fields, a=a, w=w, c=c)
    expect_close(build, 0)


def test_of_a_vector_statement_and_of_a_store() -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    to = build.buffer("act", 100)
    build.run("fill", {"trip.k": 100, "y.k": 1}, y=to)
    there = build.buffer("workspace", 1600)
    build.run("store_act", {"trip.k": 100, "y.k": 1, "d.k": 16}, y=to, d=there)
    expect_close(build, 0)
    expect_close(build, 1)
