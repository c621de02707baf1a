"""Addresses: where each buffer of a tile program lies, chosen ahead of time from lifetimes.

Two buffers may share words when one's last operation comes before the other's first. On chip, buffers are placed as
in a ring: each new one goes where the words have been free for longest and, if it can, to a bank that no other engine
uses at that time, so that the next tile's load does not wait for this tile's compute. Where the ring leaves gaps that
are too small, and always in DRAM, the packing is for size: largest first, each in the tightest hole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nlargest
from math import lcm

import numpy as np

from tilewright.compiler.errors import CompileError, DoesNotFit
from tilewright.compiler.tile.program import TileBuffer, TileProgram

WORKSPACE = "workspace"
REUSE_DISTANCE = 64
"""Operations after which a word counts as free for long: by then its last user has completed."""

LOOKAHEAD = 8
"""How many of the largest buffers to come an address is checked against."""

NEAR = 16
"""Operations over which engines are expected to overlap."""


@dataclass(frozen=True, slots=True)
class Placement:
    """`addresses` by buffer name: words on chip, bytes in a region."""

    addresses: Mapping[str, int]
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer with its first and last operation, and the (engine, is_write) pairs that use it."""

    buffer: TileBuffer
    first: int
    last: int
    uses: frozenset[tuple[str, bool]]
    read_with: frozenset[str] = frozenset()  # other buffers that an operation reads in the same cycles

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Space:
    """A memory to place buffers in: `banks` banks of `bank_words`; of DRAM, one without an end."""

    name: str
    bank_words: int
    banks: int

    @property
    def words(self) -> int:
        return self.bank_words * self.banks


def allocate(program: TileProgram) -> Placement:
    """Choose an address for every buffer; deterministic.

    Buffers that are alive at the same time never share a word; alignment and banks are as `TileBuffer` says. Raises
    DoesNotFit, naming the layer in which the memory overflows.
    """
    lifetimes = buffer_lifetimes(program)
    addresses = {b.name: b.offset for b in program.buffers.values() if b.offset is not None}
    for memory in program.machine.memories.values():
        items = [life for life in lifetimes if life.buffer.place == memory.name and life.buffer.offset is None]
        space = Space(memory.name, memory.bank_depth, memory.banks)
        placed = place_in_ring(space, items)
        if placed is None:
            placed = pack(items, space.bank_words)
            _require_fit(program, space, items, placed)
        addresses.update(placed)
    workspace = [life for life in lifetimes if life.buffer.place == WORKSPACE and life.buffer.offset is None]
    placed = pack(workspace)
    addresses.update(placed)
    return Placement(addresses, _height(workspace, placed))


def buffer_lifetimes(program: TileProgram) -> list[Lifetime]:
    """Lifetimes of the buffers that any operation names, by first operation and then by order of declaration."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    uses: dict[str, set[tuple[str, bool]]] = {}
    together: dict[str, set[str]] = {}
    for i, operation in enumerate(program.operations):
        of = program.machine.format(operation.mnemonic)
        read = {operation.bases[operand.name].buffer for operand in of.streams}
        for name in read:
            together.setdefault(name, set()).update(read - {name})
        for operand, base in operation.bases.items():
            if base.buffer not in program.buffers:
                raise CompileError(
                    f"operation {i} ({operation.mnemonic})", f"{operand} names no buffer: {base.buffer!r}"
                )
            first.setdefault(base.buffer, i)
            last[base.buffer] = i
            is_destination = operand == of.destination.name
            ports = {is_destination, False} if of.has_accumulate else {is_destination}  # sums are read and written back
            uses.setdefault(base.buffer, set()).update((of.engine, is_write) for is_write in ports)
    found = [
        Lifetime(buffer, first[name], last[name], frozenset(uses[name]), frozenset(together.get(name, ())))
        for name, buffer in program.buffers.items()
        if name in first
    ]
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


# -- the ring ----------------------------------------------------------------------------------------------------------


def place_in_ring(space: Space, items: Sequence[Lifetime]) -> dict[str, int] | None:
    """Addresses that avoid recently used words and banks that other engines use; None when a gap is missing.

    An address that would leave no gap for a large buffer that is still to come while this one lives is avoided, too.
    """
    freed_at = np.full(space.words, -REUSE_DISTANCE, np.int64)  # last operation of each word's last owner
    live: list[tuple[int, Lifetime]] = []
    near: list[tuple[int, Lifetime]] = []
    addresses: dict[str, int] = {}
    pointer = 0
    bank_pointers = [bank * space.bank_words for bank in range(space.banks)]  # behind the newest buffer of each bank
    for position, item in enumerate(items):
        live = [(address, other) for address, other in live if other.last >= item.first]
        near = [(address, other) for address, other in near if other.last >= item.first - NEAR]
        candidates = _candidates(space, item.buffer, sorted((a, a + o.buffer.size) for a, o in live), bank_pointers)
        if not candidates:
            return None
        contention = _contention(space, item, near)
        costs = {
            address: (
                _reuse(item, int(freed_at[address : address + item.buffer.size].max())),
                sum(contention[bank] for bank in _banks(space, address, item.buffer.size)),
                (address - pointer) % space.words,
            )
            for address in candidates
        }
        coming = _largest_to_come(items, position)
        ranked = sorted(candidates, key=costs.__getitem__)
        best = next((address for address in ranked if _leaves_room(space, [*live, (address, item)], coming)), ranked[0])
        addresses[item.buffer.name] = best
        live.append((best, item))
        near.append((best, item))
        pointer = best + item.buffer.size
        bank_pointers[(pointer - 1) // space.bank_words] = pointer
        freed_at[best:pointer] = item.last
    return addresses


def _candidates(
    space: Space, buffer: TileBuffer, taken: Sequence[tuple[int, int]], bank_pointers: Sequence[int]
) -> list[int]:
    """Legal addresses worth comparing: in each gap its start, the starts of banks and the banks' pointers."""
    found = set()
    gap_start = 0
    wanted = sorted({*bank_pointers, *range(0, space.words, space.bank_words)})
    for start, stop in [*taken, (space.words, space.words)]:
        if gap_start + buffer.size <= start:
            for address in (gap_start, *wanted[bisect_right(wanted, gap_start) : bisect_left(wanted, start)]):
                legal = legal_address(buffer, address, space.bank_words)
                if legal is not None and legal + buffer.size <= start:
                    found.add(legal)
        gap_start = max(gap_start, stop)
    return sorted(found)


def _largest_to_come(items: Sequence[Lifetime], position: int) -> list[Lifetime]:
    """The largest of the buffers that start while the one at a position lives."""
    last = items[position].last
    stop = bisect_right(items, last, lo=position + 1, key=lambda life: life.first)
    return nlargest(LOOKAHEAD, items[position + 1 : stop], key=lambda life: life.buffer.size)


def _leaves_room(space: Space, placed: Sequence[tuple[int, Lifetime]], coming: Sequence[Lifetime]) -> bool:
    """True when each of the coming buffers by itself has a gap between those placed ones that then still live."""
    return all(
        _has_gap(
            space,
            other.buffer,
            sorted((address, address + item.buffer.size) for address, item in placed if item.last >= other.first),
        )
        for other in coming
    )


def _has_gap(space: Space, buffer: TileBuffer, taken: Sequence[tuple[int, int]]) -> bool:
    gap_start = 0
    for start, stop in [*taken, (space.words, space.words)]:
        if gap_start + buffer.size <= start:
            address = legal_address(buffer, gap_start, space.bank_words)
            if address is not None and address + buffer.size <= start:
                return True
        gap_start = max(gap_start, stop)
    return False


def legal_address(buffer: TileBuffer, lowest: int, bank_words: int) -> int | None:
    """The first address from `lowest` on that is aligned, with no aligned group across two banks, or None.

    A group lies across a bank boundary inside the buffer exactly when that boundary is not itself aligned.
    """
    step = buffer.alignment
    address = -(-lowest // step) * step
    if bank_words == 0 or bank_words % step == 0:
        return address
    period = lcm(bank_words, step)  # boundaries and groups meet again after it
    tried_up_to = address + period
    while address < tried_up_to:
        inside = range((address // bank_words + 1) * bank_words, address + buffer.size, bank_words)
        across = next((boundary for boundary in inside if boundary % step), None)
        if across is None:
            return address
        address = -(-across // step) * step
    return None


def _reuse(item: Lifetime, freed_at: int) -> int:
    """How much too early words are taken that were freed at an operation: 0 if long ago; coarse, for banks to count."""
    return max(0, REUSE_DISTANCE - (item.first - freed_at)) // NEAR


def _contention(space: Space, item: Lifetime, near: Sequence[tuple[int, Lifetime]]) -> list[int]:
    """Per bank, how much others ask for the same port at about the same time, the closer the heavier.

    Others are other engines, and what the same operation reads.
    """
    weights = [0] * space.banks
    for address, other in near:
        if other.buffer.name in item.read_with or _share_a_port(item.uses, other.uses):
            closeness = (1 << NEAR) >> max(0, item.first - other.last)
            for bank in _banks(space, address, other.buffer.size):
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


def _banks(space: Space, address: int, size: int) -> range:
    return range(address // space.bank_words, (address + max(size, 1) - 1) // space.bank_words + 1)


# -- packing for size --------------------------------------------------------------------------------------------------


def pack(items: Sequence[Lifetime], bank_words: int = 0) -> dict[str, int]:
    """Addresses in a space without an end, as low as a few greedy orders get them; `bank_words` 0 means no banks.

    Example: sizes 4 and 2 alive together and then 5 alone take 6 words, their lower bound.
    """
    orders = (
        sorted(items, key=lambda life: (-life.buffer.size, life.first, life.buffer.name)),
        sorted(items, key=lambda life: (-(life.last - life.first), -life.buffer.size, life.buffer.name)),
        sorted(items, key=lambda life: (-life.buffer.size * (life.last - life.first + 1), life.buffer.name)),
        list(items),
    )
    bound = live_lower_bound(items)
    best = _pack_in_order(orders[0], bank_words)
    for order in orders[1:]:
        if _height(items, best) <= bound:
            break
        other = _pack_in_order(order, bank_words)
        if _height(items, other) < _height(items, best):
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


def _height(items: Sequence[Lifetime], addresses: Mapping[str, int]) -> int:
    return max((addresses[item.buffer.name] + item.buffer.size for item in items), default=0)


def _require_fit(program: TileProgram, space: Space, items: Sequence[Lifetime], placed: Mapping[str, int]) -> None:
    for item in sorted(items, key=lambda life: life.first):
        top = placed[item.buffer.name] + item.buffer.size
        if top <= space.words and legal_address(item.buffer, 0, space.bank_words) is not None:
            continue
        together = live_lower_bound([other for other in items if other.meets(item)])
        needed = together if together > space.words else max(top, space.words + 1)
        layer = program.layers[program.operations[item.first].layer].name
        raise DoesNotFit(space.name, needed, space.words, layer)
