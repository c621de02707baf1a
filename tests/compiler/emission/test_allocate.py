"""Addresses: buffers that live at the same time are apart, and what does not fit is refused with the figures.

As in a ring, words rest before they are used again, and engines that overlap get different banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.emission.lives import life, overlaps
from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import Contention, allocate, contention, place_in_ring
from tilewright.compiler.emission.packing import Lifetime, MemoryBanks, buffer_lifetimes, live_lower_bound
from tilewright.compiler.errors import DoesNotFit
from tilewright.isa import timing
from tilewright.isa.files.loader import load_machine, load_machine_text


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("seed", range(4))
def test_keeps_living_buffers_apart(machine: str, seed: int) -> None:
    program = random_tiles(load_machine(machine), seed)
    placement = allocate(program).placement
    lifetimes = buffer_lifetimes(program)
    for place in ("act", "wgt", "acc", "par", "workspace"):
        here = [item for item in lifetimes if item.buffer.place == place]
        assert overlaps(here, dict(placement.addresses)) == []


def test_refuses_what_is_too_large_with_the_figures() -> None:
    machine = load_machine("base16", ["memories.wgt.kib=1"])
    builder = TileBuilder(machine, np.random.default_rng(0))
    depth = machine.memories["wgt"].depth
    first, second = builder.buffer("wgt", depth), builder.buffer("wgt", machine.array.rows)
    for buffer in (first, second, first):
        builder.run("load_wgt", {}, d="weights", y=buffer)
    with pytest.raises(DoesNotFit) as refused:
        allocate(builder.program())
    assert (refused.value.memory, refused.value.needed, refused.value.available) == ("wgt", depth + 16, depth)
    assert str(refused.value) == f"layer0: wgt needs {depth + 16} words at the same time, the machine has {depth}"


def test_fixed_buffers_keep_their_offset() -> None:
    program = random_tiles(load_machine("tiny8"), 1)
    moved = replace(program.buffers["inputs"], offset=0)
    assert allocate(program).placement.addresses["inputs"] == moved.offset


def test_is_deterministic() -> None:
    machine = load_machine("base16")
    assert allocate(random_tiles(machine, 3)) == allocate(random_tiles(machine, 3))


NO_CONTENTION: Contention = {}


def placed(memory: MemoryBanks, items: Sequence[Lifetime], contention: Contention = NO_CONTENTION) -> Mapping[str, int]:
    """The addresses, where nothing has to move."""
    found = place_in_ring(memory, items, contention)
    assert found is not None
    assert found.moved == ()
    return found.addresses


def test_successive_tiles_land_in_different_places() -> None:
    memory = MemoryBanks("act", 32, 2)
    items = [life(f"tile{i}", 8, 2 * i, 2 * i + 1) for i in range(8)]
    addresses = placed(memory, items)
    assert len({addresses[f"tile{i}"] for i in range(8)}) == 8


def test_the_ring_keeps_a_buffer_through_its_last_operation() -> None:
    memory = MemoryBanks("act", 8, 1)
    assert place_in_ring(memory, [life("a", 8, 0, 3), life("b", 8, 3, 5)], NO_CONTENTION) is None
    assert placed(memory, [life("a", 8, 0, 3), life("b", 8, 4, 5)]) == {"a": 0, "b": 0}


def test_buffers_that_are_used_at_the_same_time_get_different_banks() -> None:
    memory = MemoryBanks("act", 32, 3)
    items = [life("a", 8, 0, 9), life("b", 8, 0, 9), life("c", 8, 1, 9)]
    addresses = placed(memory, items, {"c": {"a": 100, "b": 300}, "b": {"a": 10}, "a": {"b": 10, "c": 100}})
    assert [addresses[name] // 32 for name in "abc"] == [0, 1, 2]
    memory = MemoryBanks("act", 32, 2)
    addresses = placed(memory, items, {"c": {"a": 100, "b": 300}, "b": {"a": 10}, "a": {"b": 10, "c": 100}})
    assert [addresses[name] // 32 for name in "abc"] == [0, 1, 0]  # `a` is less in its way


def test_the_ring_leaves_a_gap_for_a_large_buffer_to_come() -> None:
    # Words 0 to 3 were used last, so `c` would go to 4: gaps of 4 and 2 words would remain for the 6 of `d`.
    items = [life("a", 2, 0, 0), life("b", 2, 1, 1), life("c", 4, 2, 5), life("d", 6, 5, 7)]
    assert placed(MemoryBanks("act", 10, 1), items) == {"a": 0, "b": 2, "c": 0, "d": 4}


def test_a_buffer_lies_in_one_bank_where_it_can() -> None:
    # Behind `a`, words 6 to 9 would be in both banks; `c` is larger than a bank.
    items = [life("a", 6, 0, 3), life("b", 4, 1, 3), life("c", 9, 4, 5)]
    addresses = placed(MemoryBanks("act", 8, 2), items)
    assert (addresses["a"], addresses["b"]) == (0, 8)
    assert addresses["c"] + 9 <= 16


def test_only_the_buffers_in_the_way_are_placed_again() -> None:
    # From operation 4 on, `b` and `e` leave two gaps of two words on both sides of `c`, and `d` needs four.
    items = [life("a", 2, 0, 9), life("b", 2, 0, 3), life("c", 2, 1, 9), life("e", 2, 1, 3), life("d", 4, 4, 9)]
    before = placed(MemoryBanks("act", 8, 1), items[:4])
    assert before == {"a": 0, "b": 2, "c": 4, "e": 6}
    found = place_in_ring(MemoryBanks("act", 8, 1), items, NO_CONTENTION)
    assert found is not None
    assert found.moved == ("a", "c", "e")
    assert found.addresses["b"] == before["b"]
    assert overlaps(items, dict(found.addresses)) == []


def test_two_large_buffers_do_not_take_the_same_place_for_ever() -> None:
    # `a` lies between two gaps, and none takes 6 words. So it must move, though only `b` is in the way at most places.
    items = [life("z", 3, 0, 1), life("a", 1, 1, 9), life("b", 7, 2, 9), life("c", 6, 4, 9)]
    found = place_in_ring(MemoryBanks("act", 16, 1), items, NO_CONTENTION)
    assert found is not None
    assert overlaps(items, dict(found.addresses)) == []
    assert "a" in found.moved


def test_a_memory_that_is_too_small_is_given_up() -> None:
    items = [life(f"b{index}", 3, 0, 9) for index in range(3)]
    assert place_in_ring(MemoryBanks("act", 8, 1), items, NO_CONTENTION) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_full_memory_is_placed_without_overlaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = []
    for index in range(200):
        size = int(rng.integers(1, 20))
        items.append(life(f"b{index}", size, index, index + int(rng.integers(0, 8))))
    words = live_lower_bound(items) + 12
    found = place_in_ring(MemoryBanks("act", words, 1), items, NO_CONTENTION)
    assert found is not None
    assert overlaps(items, dict(found.addresses)) == []
    assert max(found.addresses[item.buffer.name] + item.buffer.size for item in items) <= words


def test_a_free_bank_comes_before_words_that_are_free_for_longer() -> None:
    # `c` is read together with `b`, beside which there is room. The words of the other bank were `a`'s just before.
    items = [life("a", 8, 0, 3), life("b", 4, 2, 9), life("c", 4, 4, 9)]
    addresses = placed(MemoryBanks("acc", 8, 2), items, {"a": {"b": 5}, "b": {"a": 5, "c": 100}, "c": {"b": 100}})
    assert addresses == {"a": 0, "b": 8, "c": 0}


def hard(seed: int, begin: int) -> tuple[list[Lifetime], Contention]:
    """Fourteen buffers that nearly fill two banks of 12 words, from an operation on, and random cycles they contend."""
    rng = np.random.default_rng(seed)
    spans = [(int(rng.choice([2, 3, 4, 6, 8])), int(rng.integers(0, 12)), int(rng.integers(0, 6))) for _ in range(14)]
    in_order = sorted(spans, key=lambda span: span[1])
    items = [
        life(f"h{at}", size, begin + first, begin + first + long) for at, (size, first, long) in enumerate(in_order)
    ]
    contention: dict[str, dict[str, int]] = {}
    for a in items:
        for b in items:
            if a is not b and a.meets(b) and rng.random() < 0.4:
                contention.setdefault(a.buffer.name, {})[b.buffer.name] = int(rng.integers(1, 300))
    return items, contention


EASY = [life("a", 8, 0, 9), life("b", 4, 0, 9), life("c", 4, 0, 9)]
EASY_CONTENTION: Contention = {"a": {"b": 9, "c": 9}, "b": {"a": 9, "c": 1}, "c": {"a": 9, "b": 1}}


@pytest.mark.parametrize("seed", [1518, 2753, 3369, 3411])
def test_where_ports_leave_no_place_only_the_buffers_around_go_anywhere(seed: int) -> None:
    memory, (items, contention) = MemoryBanks("act", 12, 2), hard(seed, begin=10_000)
    easy = placed(memory, EASY, EASY_CONTENTION)
    assert [easy[name] // 12 for name in "abc"] == [0, 1, 1]
    found = place_in_ring(memory, [*EASY, *items], {**EASY_CONTENTION, **contention})
    assert found is not None
    assert overlaps([*EASY, *items], dict(found.addresses)) == []
    assert found.crowded
    assert {name: found.addresses[name] for name in "abc"} == easy
    assert not {"a", "b", "c"} & {*found.crowded}


@pytest.mark.parametrize("seed", range(100))
def test_ports_never_keep_buffers_out_of_a_memory(seed: int) -> None:
    memory, (items, contention) = MemoryBanks("act", 12, 2), hard(seed, begin=0)
    if place_in_ring(memory, items, NO_CONTENTION) is not None:
        assert place_in_ring(memory, items, contention) is not None


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
