"""Placing as in a ring: words rest before they are used again, and engines that overlap get different banks."""

from __future__ import annotations

from tests.compiler.emission.lives import life
from tilewright.compiler.emission.banks import BankedMemory
from tilewright.compiler.emission.lifetimes import Lifetime
from tilewright.compiler.emission.ring import place_in_ring
from tilewright.compiler.tile.program import TileBuffer


def test_successive_tiles_land_in_different_places() -> None:
    memory = BankedMemory("act", 32, 2)
    items = [life(f"tile{i}", 8, 2 * i, 2 * i + 1) for i in range(8)]
    addresses = place_in_ring(memory, items)
    assert addresses is not None
    assert len({addresses[f"tile{i}"] for i in range(8)}) == 8


def test_the_ring_keeps_a_buffer_through_its_last_operation() -> None:
    memory = BankedMemory("act", 8, 1)
    assert place_in_ring(memory, [life("a", 8, 0, 3), life("b", 8, 3, 5)]) is None
    assert place_in_ring(memory, [life("a", 8, 0, 3), life("b", 8, 4, 5)]) == {"a": 0, "b": 0}


def test_concurrent_engines_get_different_banks() -> None:
    memory = BankedMemory("act", 32, 2)
    a = Lifetime(TileBuffer("a", "act", 8), 0, 9, frozenset({("mma", False)}))
    b = Lifetime(TileBuffer("b", "act", 8), 1, 9, frozenset({("vec", False)}))
    addresses = place_in_ring(memory, [a, b])
    assert addresses is not None
    assert addresses["a"] // 32 != addresses["b"] // 32


def test_what_an_operation_reads_together_is_in_different_banks() -> None:
    a = Lifetime(TileBuffer("a", "act", 8), 0, 9, frozenset({("vec", False)}), frozenset({"b"}))
    b = Lifetime(TileBuffer("b", "act", 8), 1, 9, frozenset({("vec", False)}), frozenset({"a"}))
    addresses = place_in_ring(BankedMemory("act", 32, 2), [a, b])
    assert addresses is not None
    assert addresses["a"] // 32 != addresses["b"] // 32


def test_the_ring_leaves_a_gap_for_a_large_buffer_to_come() -> None:
    # Words 0 to 3 were used last, so `c` would go to 4: gaps of 4 and 2 words would remain for the 6 of `d`.
    items = [life("a", 2, 0, 0), life("b", 2, 1, 1), life("c", 4, 2, 5), life("d", 6, 5, 7)]
    assert place_in_ring(BankedMemory("act", 10, 1), items) == {"a": 0, "b": 2, "c": 0, "d": 4}
