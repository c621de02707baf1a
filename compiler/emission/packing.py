"""Addresses that take little space: largest first, each buffer in the tightest hole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.compiler.emission.banks import legal_address
from tilewright.compiler.emission.lifetimes import Lifetime, live_lower_bound
from tilewright.compiler.tile.program import TileBuffer


def pack(items: Sequence[Lifetime], bank_words: int = 0) -> dict[str, int]:
    """Addresses in a memory without an end, as low as a few greedy orders get them; `bank_words` 0 means no banks.

    Buffers that are equal in this come as in `items`. Example: sizes 4 and 2 alive together and then 5 alone take 6
    words, their lower bound.
    """
    orders = (
        sorted(items, key=lambda life: (-life.buffer.size, life.first)),
        sorted(items, key=lambda life: (-(life.last - life.first), -life.buffer.size)),
        sorted(items, key=lambda life: -life.buffer.size * (life.last - life.first + 1)),
        list(items),
    )
    bound = live_lower_bound(items)
    best = _pack_in_order(orders[0], bank_words)
    for order in orders[1:]:
        if height(items, best) <= bound:
            break
        other = _pack_in_order(order, bank_words)
        if height(items, other) < height(items, best):
            best = other
    return best


def _pack_in_order(order: Sequence[Lifetime], bank_words: int) -> dict[str, int]:
    """Each buffer in turn into the tightest hole between those that it meets, else above them."""
    firsts = np.array([life.first for life in order])
    lasts = np.array([life.last for life in order])
    starts = np.zeros(len(order), np.int64)
    stops = np.zeros(len(order), np.int64)
    addresses: dict[str, int] = {}
    for i, item in enumerate(order):
        met = np.flatnonzero((firsts[:i] <= item.last) & (lasts[:i] >= item.first))
        taken = sorted(zip(starts[met].tolist(), stops[met].tolist(), strict=True))
        address = _tightest_hole(item.buffer, taken, bank_words)
        starts[i], stops[i] = address, address + item.buffer.size
        addresses[item.buffer.name] = address
    return addresses


def _tightest_hole(buffer: TileBuffer, taken: Sequence[tuple[int, int]], bank_words: int) -> int:
    """The start of the smallest gap that holds a buffer; if there is none, the place above everything."""
    best: tuple[int, int] | None = None
    gap_start = 0
    for start, stop in taken:
        address = legal_address(buffer, gap_start, bank_words)
        if address is not None and address + buffer.size <= start:
            if best is None or start - gap_start < best[0]:
                best = (start - gap_start, address)
        gap_start = max(gap_start, stop)
    if best is not None:
        return best[1]
    above = legal_address(buffer, gap_start, bank_words)
    return gap_start if above is None else above


def height(items: Sequence[Lifetime], addresses: Mapping[str, int]) -> int:
    """The end of the highest buffer."""
    return max((addresses[item.buffer.name] + item.buffer.size for item in items), default=0)
