"""Schedules: loads come earlier, nothing passes what it depends on, and memories do not overflow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.schedule import schedule
from tilewright.isa.files.loader import load_machine


def builder(*overrides: str) -> TileBuilder:
    return TileBuilder(load_machine("base16", overrides), np.random.default_rng(0))


def mnemonics(build: TileBuilder, loads_ahead: int) -> list[str]:
    return [operation.mnemonic for operation in schedule(build.program(), loads_ahead).operations]


def test_hoists_a_load_over_work_that_does_not_need_it() -> None:
    build = builder()
    x = build.load_input()
    build.add(x, x)
    build.add(x, x)
    build.load("wgt", 16)
    assert mnemonics(build, 8) == ["load_act", "load_wgt", "add", "add"]


def test_no_operation_is_passed_by_more_loads_than_said() -> None:
    build = builder()
    x = build.load_input()
    build.add(x, x)
    build.load("wgt", 16)
    build.load("wgt", 16)
    assert mnemonics(build, 1) == ["load_act", "load_wgt", "add", "load_wgt"]
    assert mnemonics(build, 2) == ["load_act", "load_wgt", "load_wgt", "add"]


def test_never_passes_the_store_that_it_reads() -> None:
    build = builder()
    build.through_dram(build.load_input())
    assert mnemonics(build, 8) == ["load_act", "store_act", "load_act"]


def test_never_overwrites_what_is_still_to_be_read() -> None:
    build = builder()
    x = build.load_input()
    y = build.add(x, x)
    build.run("load_act", {"trip.k": WORDS, "d.k": 16, "y.k": 1}, d="inputs", y=x)
    build.store(y)
    assert mnemonics(build, 8) == ["load_act", "add", "load_act", "store_act"]


def test_stays_where_its_buffer_fits() -> None:
    build = builder("memories.wgt.kib=1")  # 64 words
    first = build.load("wgt", 64)
    sums = build.buffer("acc", 1)
    x = build.load_input()
    build.run("mma", {}, a=x, w=first, c=sums)
    second = build.load("wgt", 64)
    build.run("mma", {}, a=x, w=second, c=sums)
    assert mnemonics(build, 8) == ["load_wgt", "load_act", "mma", "load_wgt", "mma"]


@pytest.mark.parametrize("seed", range(3))
def test_what_fitted_still_fits(seed: int) -> None:
    tiles = random_tiles(load_machine("tiny8", ["memories.act.kib=2"]), seed)
    allocate(tiles)
    allocate(schedule(tiles, 16))
