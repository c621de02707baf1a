"""Addresses on chip as in a ring: a new buffer goes where the words have been free for longest.

If it can, it goes to a bank that no other engine uses at that time, so that the next tile's load does not wait for this
tile's compute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from heapq import nlargest

import numpy as np

from tilewright.compiler.emission.banks import BankedMemory, legal_address
from tilewright.compiler.emission.lifetimes import Lifetime
from tilewright.compiler.tile.program import TileBuffer

REUSE_DISTANCE = 64
"""After this many operations a word counts as free for long, because its last user has completed."""

LOOKAHEAD = 8
"""An address is checked against this many of the largest buffers that are still to come."""

NEAR = 16
"""Operations over which engines are expected to overlap."""


def place_in_ring(memory: BankedMemory, items: Sequence[Lifetime]) -> dict[str, int] | None:
    """Addresses that avoid recently used words and banks that other engines use; None when a gap is missing.

    An address that would leave no gap for a large buffer that is still to come while this one lives is avoided, too.
    """
    freed_at = np.full(memory.words, -REUSE_DISTANCE, np.int64)  # last operation of each word's last owner
    live: list[tuple[int, Lifetime]] = []
    near: list[tuple[int, Lifetime]] = []
    addresses: dict[str, int] = {}
    pointer = 0
    bank_pointers = [bank * memory.bank_words for bank in range(memory.banks)]  # behind the newest buffer of each bank
    for position, item in enumerate(items):
        live = [(address, other) for address, other in live if other.last >= item.first]
        near = [(address, other) for address, other in near if other.last >= item.first - NEAR]
        candidates = _candidates(memory, item.buffer, sorted((a, a + o.buffer.size) for a, o in live), bank_pointers)
        if not candidates:
            return None
        contention = _contention(memory, item, near)
        costs = {
            address: (
                _reuse(item, int(freed_at[address : address + item.buffer.size].max())),
                sum(contention[bank] for bank in _banks(memory, address, item.buffer.size)),
                (address - pointer) % memory.words,
            )
            for address in candidates
        }
        coming = _largest_to_come(items, position)
        ranked = sorted(candidates, key=costs.__getitem__)
        roomy = (address for address in ranked if _leaves_room(memory, [*live, (address, item)], coming))
        best = next(roomy, ranked[0])
        addresses[item.buffer.name] = best
        live.append((best, item))
        near.append((best, item))
        pointer = best + item.buffer.size
        bank_pointers[(pointer - 1) // memory.bank_words] = pointer
        freed_at[best:pointer] = item.last
    return addresses


def _candidates(
    memory: BankedMemory, buffer: TileBuffer, taken: Sequence[tuple[int, int]], bank_pointers: Sequence[int]
) -> list[int]:
    """Legal addresses worth comparing: in each gap its start, the starts of banks and the banks' pointers."""
    found = set()
    gap_start = 0
    wanted = sorted({*bank_pointers, *range(0, memory.words, memory.bank_words)})
    for start, stop in [*taken, (memory.words, memory.words)]:
        if gap_start + buffer.size <= start:
            for address in (gap_start, *wanted[bisect_right(wanted, gap_start) : bisect_left(wanted, start)]):
                legal = legal_address(buffer, address, memory.bank_words)
                if legal is not None and legal + buffer.size <= start:
                    found.add(legal)
        gap_start = max(gap_start, stop)
    return sorted(found)


def _largest_to_come(items: Sequence[Lifetime], position: int) -> list[Lifetime]:
    """The largest of the buffers that come into use while the one at a position is in use."""
    last = items[position].last
    stop = bisect_right(items, last, lo=position + 1, key=lambda life: life.first)
    return nlargest(LOOKAHEAD, items[position + 1 : stop], key=lambda life: life.buffer.size)


def _leaves_room(memory: BankedMemory, placed: Sequence[tuple[int, Lifetime]], coming: Sequence[Lifetime]) -> bool:
    """True if each of the coming buffers, taken alone, has a gap between the buffers that are still in use then."""
    return all(
        _has_gap(
            memory,
            other.buffer,
            sorted((address, address + item.buffer.size) for address, item in placed if item.last >= other.first),
        )
        for other in coming
    )


def _has_gap(memory: BankedMemory, buffer: TileBuffer, taken: Sequence[tuple[int, int]]) -> bool:
    gap_start = 0
    for start, stop in [*taken, (memory.words, memory.words)]:
        if gap_start + buffer.size <= start:
            address = legal_address(buffer, gap_start, memory.bank_words)
            if address is not None and address + buffer.size <= start:
                return True
        gap_start = max(gap_start, stop)
    return False


def _reuse(item: Lifetime, freed_at: int) -> int:
    """How much too early words are taken that were freed at an operation: 0 if long ago.

    In coarse steps, so that among about equal addresses the banks decide.
    """
    return max(0, REUSE_DISTANCE - (item.first - freed_at)) // NEAR


def _contention(memory: BankedMemory, item: Lifetime, near: Sequence[tuple[int, Lifetime]]) -> list[int]:
    """Per bank, how much others ask for the same port at about the same time; the closer in time, the more it counts.

    Others are the buffers of other engines, and those that the same operation reads.
    """
    weights = [0] * memory.banks
    for address, other in near:
        if other.buffer.name in item.read_with or _share_a_port(item.uses, other.uses):
            closeness = (1 << NEAR) >> max(0, item.first - other.last)
            for bank in _banks(memory, address, other.buffer.size):
                weights[bank] += closeness
    return weights


@cache
def _share_a_port(uses: frozenset[tuple[str, bool]], others: frozenset[tuple[str, bool]]) -> bool:
    """True when two engines both read, or both write."""
    return any(
        is_write == other_write and engine != other_engine
        for engine, is_write in uses
        for other_engine, other_write in others
    )


def _banks(memory: BankedMemory, address: int, size: int) -> range:
    """The banks that a buffer reaches into."""
    return range(address // memory.bank_words, (address + max(size, 1) - 1) // memory.bank_words + 1)
