"""Addresses: buffers that live at the same time are apart, and what does not fit is refused with the figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.tile_programs import TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import (
    Lifetime,
    Space,
    allocate,
    buffer_lifetimes,
    legal_address,
    live_lower_bound,
    pack,
    place_in_ring,
)
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.tile.program import TileBuffer
from tilewright.isa.files.loader import load_machine

NO_USES: frozenset[tuple[str, bool]] = frozenset()


def life(name: str, size: int, first: int, last: int, alignment: int = 1) -> Lifetime:
    return Lifetime(TileBuffer(name, "act", size, alignment), first, last, NO_USES)


def overlaps(lifetimes: list[Lifetime], addresses: dict[str, int]) -> list[tuple[str, str]]:
    """Pairs that share a word while both are alive, by comparing every pair."""
    found = []
    for i, a in enumerate(lifetimes):
        for b in lifetimes[:i]:
            alive = a.first <= b.last and b.first <= a.last
            at_a, at_b = addresses[a.buffer.name], addresses[b.buffer.name]
            if alive and at_a < at_b + b.buffer.size and at_b < at_a + a.buffer.size:
                found.append((b.buffer.name, a.buffer.name))
    return found


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("seed", range(4))
def test_keeps_living_buffers_apart(machine: str, seed: int) -> None:
    program = random_tiles(load_machine(machine), seed)
    placement = allocate(program)
    lifetimes = buffer_lifetimes(program)
    for place in ("act", "wgt", "acc", "par", "workspace"):
        here = [item for item in lifetimes if item.buffer.place == place]
        assert overlaps(here, dict(placement.addresses)) == []


def test_shares_words_only_after_the_last_use() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    addresses = pack(items)
    assert overlaps(items, addresses) == []
    assert max(addresses[item.buffer.name] + item.buffer.size for item in items) == 6


@pytest.mark.parametrize("seed", range(5))
def test_packs_near_the_lower_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = []
    for index in range(60):
        first = int(rng.integers(0, 100))
        items.append(life(f"b{index}", int(rng.integers(1, 50)), first, first + int(rng.integers(0, 20))))
    addresses = pack(items)
    assert overlaps(items, addresses) == []
    height = max(addresses[item.buffer.name] + item.buffer.size for item in items)
    assert height <= 1.25 * live_lower_bound(items)


def test_lower_bound_is_the_most_alive_at_once() -> None:
    items = [life("a", 4, 0, 3), life("b", 2, 3, 5), life("c", 5, 6, 7)]
    assert live_lower_bound(items) == 6


def test_successive_tiles_land_in_different_places() -> None:
    space = Space("act", 32, 2)
    items = [life(f"tile{i}", 8, 2 * i, 2 * i + 1) for i in range(8)]
    addresses = place_in_ring(space, items)
    assert addresses is not None
    assert len({addresses[f"tile{i}"] for i in range(8)}) == 8


def test_the_ring_keeps_a_buffer_through_its_last_operation() -> None:
    space = Space("act", 8, 1)
    assert place_in_ring(space, [life("a", 8, 0, 3), life("b", 8, 3, 5)]) is None
    assert place_in_ring(space, [life("a", 8, 0, 3), life("b", 8, 4, 5)]) == {"a": 0, "b": 0}


def test_concurrent_engines_get_different_banks() -> None:
    space = Space("act", 32, 2)
    a = Lifetime(TileBuffer("a", "act", 8), 0, 9, frozenset({("mma", False)}))
    b = Lifetime(TileBuffer("b", "act", 8), 1, 9, frozenset({("vec", False)}))
    addresses = place_in_ring(space, [a, b])
    assert addresses is not None
    assert addresses["a"] // 32 != addresses["b"] // 32


def test_what_an_operation_reads_together_is_in_different_banks() -> None:
    a = Lifetime(TileBuffer("a", "act", 8), 0, 9, frozenset({("vec", False)}), frozenset({"b"}))
    b = Lifetime(TileBuffer("b", "act", 8), 1, 9, frozenset({("vec", False)}), frozenset({"a"}))
    addresses = place_in_ring(Space("act", 32, 2), [a, b])
    assert addresses is not None
    assert addresses["a"] // 32 != addresses["b"] // 32


def test_operands_of_one_operation_are_known() -> None:
    builder = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    a, b, y = (builder.buffer("act", 4) for _ in range(3))
    builder.run("add", {}, a=a, b=b, y=y)
    lives = {life.buffer.name: life.read_with for life in buffer_lifetimes(builder.program())}
    assert lives == {a: {b}, b: {a}, y: frozenset()}


def test_the_ring_leaves_a_gap_for_a_large_buffer_to_come() -> None:
    # Words 0 to 3 were used last, so `c` would go to 4: gaps of 4 and 2 words would remain for the 6 of `d`.
    items = [life("a", 2, 0, 0), life("b", 2, 1, 1), life("c", 4, 2, 5), life("d", 6, 5, 7)]
    assert place_in_ring(Space("act", 10, 1), items) == {"a": 0, "b": 2, "c": 0, "d": 4}


def test_aligned_groups_stay_in_one_bank() -> None:
    # Banks of 10 words, groups of 4: the boundary at 10 is not a multiple of 4, that at 20 is.
    buffer = TileBuffer("a", "act", 8, 4)
    assert legal_address(buffer, 0, 10) == 0
    assert legal_address(buffer, 1, 10) == 12
    assert legal_address(TileBuffer("b", "act", 4, 4), 5, 10) == 12
    assert legal_address(TileBuffer("c", "act", 12, 4), 0, 10) == 12


def test_refuses_what_is_too_large_with_the_figures() -> None:
    machine = load_machine("base16", ["memories.wgt.kib=1"])
    builder = TileBuilder(machine, np.random.default_rng(0))
    depth = machine.memories["wgt"].depth
    first, second = builder.buffer("wgt", depth), builder.buffer("wgt", machine.rows)
    for buffer in (first, second, first):
        builder.run("load_wgt", {}, d="weights", y=buffer)
    with pytest.raises(DoesNotFit) as refused:
        allocate(builder.program())
    assert (refused.value.memory, refused.value.needed, refused.value.available) == ("wgt", depth + 16, depth)
    assert str(refused.value) == f"layer0: wgt needs {depth + 16} words at the same time, the machine has {depth}"


def test_fixed_buffers_keep_their_offset() -> None:
    program = random_tiles(load_machine("tiny8"), 1)
    moved = replace(program.buffers["inputs"], offset=0)
    assert allocate(program).addresses["inputs"] == moved.offset


def test_is_deterministic() -> None:
    machine = load_machine("base16")
    assert allocate(random_tiles(machine, 3)) == allocate(random_tiles(machine, 3))
