"""Contention: who reads or writes the same memory at the same time, by cycles counted by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.compiler.tile_programs import WORDS, TileBuilder
from tilewright.compiler.emission.contention import contention
from tilewright.isa import timing
from tilewright.isa.files.loader import load_machine, load_machine_text

MACHINE = load_machine("base16")
ROWS = MACHINE.array.rows


def builder() -> TileBuilder:
    return TileBuilder(MACHINE, np.random.default_rng(0))


def rescale(build: TileBuilder, words: int, **buffers: str) -> None:
    build.run("rescale", {"trip.k": words, "a.k": 1, "y.k": 1}, **buffers)


def load(build: TileBuilder, words: int, to: str) -> None:
    size = MACHINE.memories["act"].word_bytes
    build.run("load_act", {"trip.k": words, "d.k": size, "y.k": 1}, d=build.buffer("workspace", words * size), y=to)


def product(build: TileBuilder, fields: Mapping[str, int], to: str) -> None:
    """Of each weight tile one vector for every row of the array, so that the array never waits for weights."""
    strides = {"a.x": 1, "c.x": 1, "w.k": ROWS}
    operands = {"a": build.buffer("act", 64), "w": build.buffer("wgt", 4 * ROWS)}
    build.run("mma", {"trip.x": ROWS, **strides, **fields}, **operands, c=to)


def of_both(one: str, other: str, cycles: int) -> Mapping[str, Mapping[str, int]]:
    return {one: {other: cycles}, other: {one: cycles}}


def test_operands_of_one_operation_are_read_together() -> None:
    build = builder()
    a, b, y = (build.buffer("act", WORDS) for _ in range(3))
    build.add(a, b, to=y)
    assert contention(build.program()) == of_both(a, b, 2 * WORDS)


def test_engines_contend_while_both_run() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 64) for _ in range(3))
    rescale(build, 40, a=x, y=y)
    rescale(build, 40, a=x, y=y)
    build.run("store_act", {"trip.k": 64, "y.k": 1, "d.k": 16}, y=z, d=build.buffer("workspace", 1024))
    # The store starts with the second statement, in cycle 40, and takes longer.
    assert contention(build.program()) == of_both(x, z, 40)


def test_a_run_says_when_engines_start() -> None:
    """The statement, of 40 words, starts 30 cycles before the store; or the store is long done."""
    build = builder()
    x, z = (build.buffer("act", 64) for _ in range(2))
    rescale(build, 40, a=x, y=build.buffer("act", 64))
    build.run("store_act", {"trip.k": 64, "y.k": 1, "d.k": 16}, y=z, d=build.buffer("workspace", 1024))
    assert contention(build.program(), np.array([0, 30])) == of_both(x, z, 10)
    assert not contention(build.program(), np.array([1000, 0]))


def test_a_read_and_a_write_meet_where_a_bank_has_one_port() -> None:
    machine = load_machine_text("extends: base16\nmemories: {act: {ports: 1}}\n", "one_port")
    build = TileBuilder(machine, np.random.default_rng(0))
    x, y = (build.buffer("act", 64) for _ in range(2))
    rescale(build, 40, a=x, y=y)
    # Results are written from some cycles after the first word is read: reads and writes have the rest in common,
    # and each of the two is counted beside the other.
    assert contention(build.program()) == of_both(x, y, 2 * (40 - timing.vec_write(machine.format("rescale"))))


def test_a_read_and_a_write_use_two_ports() -> None:
    build = builder()
    x, y = build.load_input(), build.buffer("act", WORDS)
    build.run("copy", {"trip.k": WORDS, "a.k": 1, "y.k": 1}, a=y, y=build.buffer("act", WORDS))
    assert x not in contention(build.program()).get(y, {})


def test_words_are_written_later_than_others_are_read() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 200) for _ in range(3))
    load(build, 40, to=z)
    rescale(build, 100, a=x, y=y)
    # Until the first word comes from DRAM, the vector engine is alone at the port.
    shared = 100 + timing.vec_write(MACHINE.format("rescale")) - timing.dma_round_trip(MACHINE)
    assert 0 < shared <= 40
    assert contention(build.program()) == of_both(y, z, shared)


def test_an_operation_waits_for_what_it_reads() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 200) for _ in range(3))
    load(build, 40, to=x)
    load(build, 40, to=z)
    rescale(build, 40, a=x, y=y)
    # It starts with the last word of x, when the words of z begin to come.
    assert contention(build.program()) == of_both(y, z, 40 - timing.vec_write(MACHINE.format("rescale")))


def test_a_reduction_writes_when_it_ends() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 200) for _ in range(3))
    load(build, 40, to=z)
    build.run("max_pool", {"trip.x": 1, "trip.r": 10, "trip.s": 10, "a.x": 1, "a.r": 10, "a.s": 1, "y.x": 1}, a=x, y=y)
    there = timing.dma_round_trip(MACHINE)
    assert there <= 99 + timing.vec_write(MACHINE.format("max_pool")) < there + 40
    assert contention(build.program()) == of_both(y, z, 1)


def test_who_meets_the_sums_of_the_array_waits_until_it_is_done() -> None:
    build = builder()
    sums, others, scales, y = (build.buffer(place, 64) for place in ("acc", "acc", "par", "act"))
    product(build, {"trip.k": 4, "accumulate": 1}, to=sums)
    fields = {"trip.k": 10, "a.k": 1, "p.k": 1, "y.k": 1}
    build.run("requantize", fields, a=others, p=scales, y=y)
    # The statement reads in cycles 0 to 10, before the first sums are read: they do not meet.
    assert not contention(build.program())
    build.run("requantize", {**fields, "trip.k": 50}, a=others, p=scales, y=y)
    # The second one meets every word, from the first that is read on.
    assert contention(build.program()) == of_both(sums, others, 4 * ROWS)


def test_the_array_reads_only_sums_that_it_adds_to() -> None:
    def reads(fields: Mapping[str, int]) -> int:
        build = builder()
        sums, others, scales, y = (build.buffer(place, 64) for place in ("acc", "acc", "par", "act"))
        product(build, fields, to=sums)
        build.run("requantize", {"trip.k": 60, "a.k": 1, "p.k": 1, "y.k": 1}, a=others, p=scales, y=y)
        return contention(build.program()).get(sums, {}).get(others, 0)

    assert reads({"trip.k": 1}) == 0
    assert reads({"trip.k": 4}) == 3 * ROWS
    assert reads({"trip.k": 4, "accumulate": 1}) == 4 * ROWS


def test_the_array_adds_to_its_own_sums_without_a_wait() -> None:
    build = builder()
    sums, others, scales, y = (build.buffer(place, 300) for place in ("acc", "acc", "par", "act"))
    for _ in range(2):
        product(build, {"trip.k": 4, "accumulate": 1}, to=sums)
    build.run("requantize", {"trip.k": 300, "a.k": 1, "p.k": 1, "y.k": 1}, a=others, p=scales, y=y)
    # The statement starts with the second product, while words of the first one are still to be read.
    cycles, left = timing.MMA_WEIGHT_LEAD + 4 * ROWS, timing.mma_read(MACHINE.array)
    assert contention(build.program()) == of_both(sums, others, left * 4 * ROWS // cycles + 4 * ROWS)


def test_words_that_come_slowly_meet_others_by_chance() -> None:
    build = builder()
    x, y, z = (build.buffer("act", 200) for _ in range(3))
    apart = 4 * MACHINE.memories["act"].word_bytes
    build.run("load_act", {"trip.k": 40, "d.k": apart, "y.k": 1}, d=build.buffer("workspace", 40 * apart), y=z)
    rescale(build, 100, a=x, y=y)
    # Each word is a burst of its own, so few are under way: 40 words in 175 cycles, beside a word in each of 100.
    assert 40 * timing.dma_round_trip(MACHINE) // MACHINE.engines["load"].dma.bursts == 175
    assert contention(build.program()) == of_both(y, z, 100 * 40 // 175)
