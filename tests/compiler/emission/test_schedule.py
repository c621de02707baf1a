"""Schedules: loads come earlier, nothing passes what it depends on, and memories do not overflow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.ahead import NOTHING_AHEAD, Ahead
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.errors import DoesNotFit
from tilewright.isa.files.loader import load_machine


def builder(machine: str = "base16", *overrides: str) -> TileBuilder:
    return TileBuilder(load_machine(machine, overrides), np.random.default_rng(0))


def mnemonics(build: TileBuilder, loads_ahead: int | None = None) -> list[str]:
    return [operation.mnemonic for operation in schedule(build.program(), Ahead(loads_ahead)).operations]


def test_a_load_comes_before_work_that_does_not_need_it() -> None:
    build = builder()
    x = build.load_input()
    build.add(x, x)
    build.add(x, x)
    build.run("mma", {}, a=x, w=build.load("wgt", 16), c=build.buffer("acc", 1))
    assert mnemonics(build) == ["load_act", "load_wgt", "add", "add", "mma"]


def test_the_load_that_is_needed_first_comes_first() -> None:
    build = builder()
    x = build.load_input()
    far, near = build.load("wgt", 16), build.load("wgt", 32)
    sums = build.buffer("acc", 1)
    build.run("mma", {}, a=x, w=near, c=sums)
    build.run("mma", {}, a=x, w=far, c=sums)
    scheduled = schedule(build.program())
    loads = [o.bases["y"].buffer for o in scheduled.operations if o.mnemonic.startswith("load")]
    assert loads == [x, near, far]


def test_a_load_does_not_come_long_before_it_is_needed() -> None:
    build = builder()
    x = build.load_input()
    for _ in range(4):
        build.run("fill", {"trip.j": 200, "trip.k": WORDS, "y.k": 1}, y=build.buffer("act", WORDS))
    build.run("rescale", {"trip.k": WORDS, "a.k": 1, "y.k": 1}, a=x, y=x)
    z = build.load_input()
    build.run("rescale", {"trip.k": WORDS, "a.k": 1, "y.k": 1}, a=z, y=z)
    # Four fills of 1200 cycles; both loads are needed after them, 8 round trips of 70 cycles are the margin.
    assert mnemonics(build) == [*["fill"] * 4, "load_act", "load_act", *["rescale"] * 2]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (1, ["load_act", "fill", "load_act_load2", "fill"]),
        (2, ["load_act", "load_act_load2", "fill", "fill"]),
    ],
)
def test_beats_of_two_engines_follow_each_other_on_one_port(ports: int, expected: list[str]) -> None:
    """Each load is 96 beats, each fill 120 cycles: on one port, the second load begins between the fills."""
    build = builder("base16-2dma", f"dram.ports={ports}", f"engines.load2.port={ports - 1}")
    found = [build.buffer("act", 96) for _ in range(2)]
    for mnemonic, to in zip(("load_act", "load_act_load2"), found, strict=True):
        build.run(mnemonic, {"trip.k": 96, "d.k": build.lanes, "y.k": 1}, d="weights", y=to)
    for _ in range(2):
        build.run("fill", {"trip.j": 20, "trip.k": WORDS, "y.k": 1}, y=build.buffer("act", WORDS))
    for loaded in found:
        build.run("rescale", {"trip.k": WORDS, "a.k": 1, "y.k": 1}, a=loaded, y=loaded)
    order = schedule(build.program(), Ahead(idle=frozenset({"load", "load2"}))).operations
    assert [operation.mnemonic for operation in order[:4]] == expected


def test_a_fill_that_waits_for_words_puts_off_no_load() -> None:
    """40 of 64 words are in use until the first product ends; the fill of as many could otherwise start at once."""
    build = builder("base16", "memories.act.kib=1")
    x, w, sums = build.load("act", 40), build.load("wgt", 16), build.buffer("acc", 1)
    build.run("mma", {"trip.y": 1000, "trip.x": WORDS}, a=x, w=w, c=sums)
    build.run("mma", {"trip.y": 1000, "trip.x": WORDS}, a=build.load("act", 1), w=w, c=sums)
    build.run("fill", {"trip.k": 16, "y.k": 1}, y=build.buffer("act", 40))
    build.run("add_sums", {}, a=sums, b=sums, y=sums)
    build.run("mma", {}, a=build.load("act", 1), w=build.load("wgt", 16), c=sums)
    assert mnemonics(build)[-6:] == ["mma", "fill", "load_act", "load_wgt", "add_sums", "mma"]


def test_where_work_is_late_its_loads_come_as_much_later() -> None:
    """The first rescale has words for its result only when a product of 6,000 cycles ends, and all behind it waits."""
    build = builder("base16", "memories.act.kib=1")
    x, w, sums = build.load("act", 40), build.load("wgt", 16), build.buffer("acc", 1)
    y, z = build.load("act", 1), build.buffer("act", 1)
    build.run("mma", {"trip.y": 1000, "trip.x": WORDS}, a=x, w=w, c=sums)
    build.run("rescale", {"trip.k": 1, "y.k": 1}, a=y, y=build.buffer("act", 40))
    for _ in range(8):
        build.run("fill", {"trip.j": 200, "trip.k": WORDS, "y.k": 0}, y=z)
    build.run("add_sums", {}, a=build.load("acc", 1), b=sums, y=sums)
    # Fills take 1,200 cycles each, and 8 round trips of 70 cycles are the margin.
    assert mnemonics(build)[-3:] == ["fill", "load_acc", "add_sums"]


def test_no_more_loads_than_said_come_before_their_turn() -> None:
    build = builder()
    x = build.load_input()
    build.add(x, x)
    first, second, sums = build.load("wgt", 16), build.load("wgt", 16), build.buffer("acc", 1)
    build.run("mma", {}, a=x, w=first, c=sums)
    build.run("mma", {}, a=x, w=second, c=sums)
    assert mnemonics(build, 1) == ["load_act", "load_wgt", "add", "load_wgt", "mma", "mma"]
    assert mnemonics(build, 2) == ["load_act", "load_wgt", "load_wgt", "add", "mma", "mma"]


def test_without_loads_ahead_the_order_stays_and_a_remark_says_so() -> None:
    program = random_tiles(load_machine("base16"), 0)
    scheduled = schedule(program, NOTHING_AHEAD)
    assert scheduled.operations == program.operations
    assert dict(scheduled.remarks) == {
        "order": "no load comes earlier than its tile, because the memories are too full; engines may wait for DRAM"
    }


def test_a_layer_that_is_kept_passes_nothing_and_nothing_passes_it() -> None:
    build = builder()
    for layer in range(4):
        build.layer = layer
        x = build.load_input()
        build.store(build.add(x, x))
    kept = schedule(build.program(), in_order={"layer2"})
    assert kept.remarks["order"].startswith("no load comes earlier than its tile in layer2, because")
    layers = [(operation.layer, operation.mnemonic) for operation in kept.operations]
    assert layers[:3] == [(0, "load_act"), (1, "load_act"), (0, "add")]
    assert layers[6:] == [(n, of) for n in (2, 3) for of in ("load_act", "add", "store_act")]
    free = [operation.layer for operation in schedule(build.program()).operations]
    assert free[:4] == [0, 1, 2, 3]


def test_layers_that_are_kept_are_not_mixed_with_others() -> None:
    program = random_tiles(load_machine("base16"), 0)
    kept = schedule(program, in_order={layer.name for layer in program.layers})
    assert kept.operations == program.operations


def test_never_passes_the_store_that_it_reads() -> None:
    build = builder()
    build.through_dram(build.load_input())
    assert mnemonics(build) == ["load_act", "store_act", "load_act"]


def test_never_overwrites_what_is_still_to_be_read() -> None:
    build = builder()
    x = build.load_input()
    y = build.add(x, x)
    build.run("load_act", {"trip.k": WORDS, "d.k": 16, "y.k": 1}, d="inputs", y=x)
    build.store(y)
    assert mnemonics(build)[:2] == ["load_act", "add"]


def test_stays_where_its_buffer_fits() -> None:
    build = builder("base16", "memories.wgt.kib=1")  # 64 words
    first = build.load("wgt", 64)
    sums = build.buffer("acc", 1)
    x = build.load_input()
    build.run("mma", {}, a=x, w=first, c=sums)
    second = build.load("wgt", 64)
    build.run("mma", {}, a=x, w=second, c=sums)
    assert mnemonics(build) == ["load_wgt", "load_act", "mma", "load_wgt", "mma"]


@pytest.mark.parametrize("seed", range(3))
def test_what_fitted_still_fits(seed: int) -> None:
    tiles = random_tiles(load_machine("tiny8", ["memories.act.kib=2"]), seed)
    allocate(tiles)
    allocate(schedule(tiles))


def test_what_never_fits_is_left_to_the_allocator() -> None:
    build = builder("base16", "memories.acc.kib=1")  # 16 words
    build.store(build.matmul(vectors=40))
    with pytest.raises(DoesNotFit):
        allocate(schedule(build.program()))
