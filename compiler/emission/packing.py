"""Addresses that take little space: largest first, each buffer in the tightest hole.

Also what every choice of addresses rests on: when each buffer is alive, and where in a memory in banks it may begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.program import TileBuffer, TileProgram

NOWHERE = -1
"""The address of a buffer that has no place."""

REUSE_DISTANCE = 64
"""After this many operations a word counts as free for long, because its last user has completed."""


@dataclass(frozen=True, slots=True)
class MemoryBanks:
    """A memory on chip: `banks` banks of `bank_words` words each; all places are one bank if interleaved."""

    name: str
    bank_words: int
    banks: int

    @property
    def words(self) -> int:
        return self.bank_words * self.banks


def legal_address(buffer: TileBuffer, lowest: int, bank_words: int) -> int | None:
    """The first address from `lowest` on that is aligned, with no aligned group across two banks, or None.

    A group lies across a bank boundary inside the buffer exactly when that boundary is not itself aligned. A buffer
    that must be in one bank has no boundary inside. `bank_words` 0 means no banks.
    """
    address = first_legal(buffer.size, buffer.alignment, buffer.is_in_bank, lowest, bank_words)
    return None if address < 0 else address


def first_legal(size: int, step: int, is_in_bank: bool, lowest: int, bank_words: int) -> int:
    """As `legal_address`, in numbers, so that kernels can have it compiled; NOWHERE for None."""
    address = -(-lowest // step) * step
    if bank_words and is_in_bank:
        if address % bank_words + size <= bank_words:
            return address
        address = -(-(address // bank_words + 1) * bank_words // step) * step
        return address if address % bank_words + size <= bank_words else NOWHERE
    if bank_words == 0 or bank_words % step == 0:
        return address
    tried_up_to = address + bank_words * step  # after which boundaries and groups have met again
    while address < tried_up_to:
        boundary = (address // bank_words + 1) * bank_words
        while boundary < address + size and boundary % step == 0:
            boundary += bank_words
        if boundary >= address + size:
            return address
        address = -(-boundary // step) * step
    return NOWHERE


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer with its first and last operation."""

    buffer: TileBuffer
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def buffer_lifetimes(program: TileProgram) -> list[Lifetime]:
    """Lifetimes of the buffers that any operation names, by first operation and then by order of declaration."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, operation in enumerate(program.operations):
        for operand, base in operation.bases.items():
            if base.buffer not in program.buffers:
                where = f"operation {index} ({operation.mnemonic})"
                raise CompileError(f"{where}: {operand} names no buffer: {base.buffer!r}")
            first.setdefault(base.buffer, index)
            last[base.buffer] = index
    found = [Lifetime(buffer, first[name], last[name]) for name, buffer in program.buffers.items() if name in first]
    return sorted(found, key=lambda life: life.first)


def live_lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """The most words that are alive at any one operation: no packing needs less."""
    changes: dict[int, int] = {}
    for life in lifetimes:
        changes[life.first] = changes.get(life.first, 0) + life.buffer.size
        changes[life.last + 1] = changes.get(life.last + 1, 0) - life.buffer.size
    total = most = 0
    for _, change in sorted(changes.items()):
        total += change
        most = max(most, total)
    return most


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
