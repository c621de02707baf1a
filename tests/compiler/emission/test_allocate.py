"""Addresses: buffers that live at the same time are apart, and what does not fit is refused with the figures.

As in a ring, words rest before they are used again, and engines that overlap get different banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.emission.lives import life, overlaps
from tests.compiler.tile_programs import TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import allocate, place_in_ring
from tilewright.compiler.emission.contention import Contention
from tilewright.compiler.emission.packing import Lifetime, MemoryBanks, buffer_lifetimes, live_lower_bound
from tilewright.compiler.errors import DoesNotFit
from tilewright.isa.files.loader import load_machine


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
