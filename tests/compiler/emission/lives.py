"""Lifetimes made by hand, and which of them share a word."""

from __future__ import annotations

from tilewright.compiler.emission.packing import Lifetime
from tilewright.compiler.tile.program import TileBuffer


def life(name: str, size: int, first: int, last: int, alignment: int = 1) -> Lifetime:
    return Lifetime(TileBuffer(name, "act", size, alignment), first, last)


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
