"""Addresses on chip as in a ring: a new buffer goes to the bank whose port others use least at that time.

So what an operation reads comes in one cycle, and the next tile's load does not wait for this tile's compute. In the
bank, it goes where the words have been free for longest, and not across the end of the bank: a buffer in two banks
leaves only the others to what is used at the same time later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nlargest

import numpy as np

from tilewright.compiler.emission.banks import BankedMemory, legal_address
from tilewright.compiler.emission.contention import Contention
from tilewright.compiler.emission.lifetimes import Lifetime
from tilewright.compiler.tile.program import TileBuffer

REUSE_DISTANCE = 64
"""After this many operations a word counts as free for long, because its last user has completed."""

LOOKAHEAD = 8
"""An address is checked against this many of the largest buffers that are still to come."""

STEP = 16
"""Operations that make no difference to how long words have been free."""

MOST_MOVES = 16
"""How often one buffer may give its place to another."""

ALWAYS = 1 << 62
"""Later than any operation."""

NOWHERE = -1
"""The address of a buffer that has no place."""


WIDER = 4
"""Where buffers found no place, so many times more operations around them go without regard to ports the next time."""


@dataclass(frozen=True, slots=True)
class RingPlaces:
    """Addresses by name, and the buffers that have not the place they were to have, in the order of their lifetimes.

    `moved` gave their first place to another; `crowded` went where there was room, whoever used the bank.
    """

    addresses: Mapping[str, int]
    moved: tuple[str, ...]
    crowded: tuple[str, ...] = ()


def place_in_ring(memory: BankedMemory, items: Sequence[Lifetime], contention: Contention) -> RingPlaces | None:
    """Addresses in banks that others do not use at the same time (`contention`), and there on words long free.

    An address that would leave no gap for a large buffer that is still to come while this one lives is avoided, too.
    Where a gap is missing nevertheless, the buffers in the way are placed again, and all others stay. Where that does
    not end soon, all that live there go where there is room, in any bank: first those of the same operations, then
    those of more and more around them. None when that does not help either.
    """
    crowded: frozenset[int] = frozenset()
    reach = 0
    while True:
        ring = _Ring(memory, items, contention, crowded)
        stuck = ring.fill()
        if stuck is None:
            return ring.places()
        if not contention or len(crowded) == len(items):
            return None
        first, last = items[stuck].first - reach, items[stuck].last + reach
        crowded |= {at for at, item in enumerate(items) if item.first <= last and item.last >= first}
        reach = max(REUSE_DISTANCE, WIDER * reach)


class _Ring:
    """A memory with the buffers that have a place so far."""

    def __init__(
        self, memory: BankedMemory, items: Sequence[Lifetime], contention: Contention, crowded: frozenset[int]
    ) -> None:
        """`crowded`: the positions of buffers that go where there is room, in any bank."""
        self._memory = memory
        self._items = items
        self._contention = contention
        self._crowded = crowded
        self._at = {item.buffer.name: position for position, item in enumerate(items)}
        self.addresses = [NOWHERE] * len(items)
        self.moves: dict[int, int] = {}  # how often a buffer had to give its place to another
        self._tries: dict[tuple[int, int], int] = {}  # how often a buffer has taken an address from others
        self._firsts = [item.first for item in items]
        self._spans = [(NOWHERE, NOWHERE, NOWHERE)] * len(items)
        self._until = np.full(len(items), NOWHERE, np.int64)  # the last operation of each that has a place
        # The last operation of each word's last owner; one word more, so that any word may be the end of others.
        self._freed_at = np.full(memory.words + 1, -REUSE_DISTANCE, np.int64)
        self._pointer = 0
        self._bank_pointers = [bank * memory.bank_words for bank in range(memory.banks)]  # behind each bank's newest

    def fill(self) -> int | None:
        """Place all buffers; the position of the one for which that does not end soon, None if it did for all."""
        waiting = list(range(len(self._items)))  # a heap: a buffer that is placed again comes before those behind it
        while waiting:
            position = heappop(waiting)
            address = self.best_address(position)
            if address is not None:
                self.place(position, address)
                continue
            in_the_way = self.make_room(position)
            if in_the_way is None:
                return position
            for other in in_the_way:
                heappush(waiting, other)
        return None

    def places(self) -> RingPlaces:
        names = [item.buffer.name for item in self._items]
        addresses = dict(zip(names, self.addresses, strict=True))
        moved, crowded = (tuple(names[at] for at in sorted(found)) for found in (self.moves, self._crowded))
        return RingPlaces(addresses, moved, crowded)

    def place(self, position: int, address: int) -> None:
        item = self._items[position]
        end = address + item.buffer.size
        self.addresses[position], self._spans[position] = address, _span(address, item)
        self._until[position] = item.last
        self._pointer = end
        self._bank_pointers[(end - 1) // self._memory.bank_words] = end
        self._freed_at[address:end] = item.last

    def best_address(self, position: int) -> int | None:
        """The best of the addresses where a buffer meets no other; None if there is none."""
        memory, item = self._memory, self._items[position]
        spans = sorted([self._spans[at] for at in self._positions_between(item.first, item.last)])
        candidates = _candidates(memory, item.buffer, spans, self._bank_pointers)
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        coming = self._largest_to_come(position)
        first = NOWHERE
        for address in self._ranked(position, candidates):
            if _leaves_room(memory, spans, _span(address, item), coming):
                return address
            first = address if first == NOWHERE else first
        return first

    def _ranked(self, position: int, addresses: Sequence[int]) -> Iterator[int]:
        """Addresses from the best on: where the fewest others use the port, then where words have long been free and in
        few banks, then as they come in the ring. What comes next in this is asked for only of addresses that are equal
        so far.
        """
        memory, item = self._memory, self._items[position]
        size, words = item.buffer.size, memory.words
        for equal in self._by_contention(position, addresses):
            if len(equal) > 1:
                freed = self._freed(equal, size)
                costs = [
                    (_reuse(item, at) + len(_banks(memory, address, size)), (address - self._pointer) % words, address)
                    for address, at in zip(equal, freed, strict=True)
                ]
                equal = [address for _, _, address in sorted(costs)]
            yield from equal

    def _by_contention(self, position: int, addresses: Sequence[int]) -> Iterable[Sequence[int]]:
        """Addresses of equal contention together, of the least first."""
        memory, item = self._memory, self._items[position]
        contending = [] if position in self._crowded else self._contending(item)
        if not contending:
            return [addresses]
        contention = _contention(memory, contending)
        found: dict[int, list[int]] = {}
        for address in addresses:
            banks = _banks(memory, address, item.buffer.size)
            found.setdefault(sum(contention[banks.start : banks.stop]), []).append(address)
        return [found[cycles] for cycles in sorted(found)]

    def make_room(self, position: int) -> list[int] | None:
        """Place a buffer where the smallest buffers are in the way, and take those away.

        An address counts twice as much each time that the buffer has tried it, so that no two buffers take each other's
        place for ever. None when one has moved too often, or no address is legal.
        """
        memory, item = self._memory, self._items[position]
        live = self._positions_between(item.first, item.last)
        sizes = {at: self._items[at].buffer.size for at in live}
        starts = {0, *(self.addresses[at] for at in live), *(self.addresses[at] + sizes[at] for at in live)}
        found: tuple[int, int, list[int]] | None = None
        for start in sorted(starts):
            address = legal_address(item.buffer, start, memory.bank_words)
            if address is None or address + item.buffer.size > memory.words:
                continue
            end = address + item.buffer.size
            in_the_way = [at for at in live if self.addresses[at] < end and self.addresses[at] + sizes[at] > address]
            cost = sum(sizes[at] for at in in_the_way) << self._tries.get((position, address), 0)
            if found is None or (cost, address) < found[:2]:
                found = cost, address, in_the_way
        if found is None or any(self.moves.get(at, 0) >= MOST_MOVES for at in found[2]):
            return None
        _, address, in_the_way = found
        self._tries[position, address] = self._tries.get((position, address), 0) + 1
        for at in in_the_way:
            self.addresses[at] = self._until[at] = NOWHERE
            self.moves[at] = self.moves.get(at, 0) + 1
        self.place(position, address)
        return in_the_way

    def _contending(self, item: Lifetime) -> list[tuple[int, Lifetime, int]]:
        """Address, buffer and cycles of those that have a place and are used at the same time through the same port."""
        return [
            (self.addresses[self._at[name]], self._items[self._at[name]], cycles)
            for name, cycles in self._contention.get(item.buffer.name, {}).items()
            if name in self._at and self.addresses[self._at[name]] >= 0
        ]

    def _freed(self, addresses: Sequence[int], size: int) -> list[int]:
        """For as many words from each address on, the last operation of their last owners."""
        bounds = [bound for address in addresses for bound in (address, address + size)]
        found: list[int] = np.maximum.reduceat(self._freed_at, bounds)[::2].tolist()
        return found

    def _largest_to_come(self, position: int) -> Sequence[Lifetime]:
        """The largest of the buffers that come into use while the one at a position is in use."""
        stop = bisect_right(self._firsts, self._items[position].last, lo=position + 1)
        coming = self._items[position + 1 : stop]
        return coming if len(coming) <= LOOKAHEAD else nlargest(LOOKAHEAD, coming, key=lambda life: life.buffer.size)

    def _positions_between(self, first: int, last: int) -> list[int]:
        """The buffers that have a place and are in use at any of these operations."""
        begun = bisect_right(self._firsts, last)
        found: list[int] = (self._until[:begun] >= first).nonzero()[0].tolist()
        return found


Span = tuple[int, int, int]
"""Words that a buffer has: the first, one more than the last, and the last operation that uses them."""


def _span(address: int, item: Lifetime) -> Span:
    return address, address + item.buffer.size, item.last


def _candidates(
    memory: BankedMemory, buffer: TileBuffer, taken: Sequence[Span], bank_pointers: Sequence[int]
) -> list[int]:
    """Legal addresses worth comparing: in each gap its start, the starts of banks and the banks' pointers."""
    found = set()
    gap_start, size, bank_words = 0, buffer.size, memory.bank_words
    wanted = sorted({*bank_pointers, *range(0, memory.words, bank_words)})
    for start, stop, _ in [*taken, _end(memory)]:
        if gap_start + size <= start:
            for address in (gap_start, *wanted[bisect_right(wanted, gap_start) : bisect_left(wanted, start)]):
                legal = legal_address(buffer, address, bank_words)
                if legal is not None and legal + size <= start:
                    found.add(legal)
        if stop > gap_start:
            gap_start = stop
    return sorted(found)


def _leaves_room(memory: BankedMemory, taken: Sequence[Span], own: Span, coming: Sequence[Lifetime]) -> bool:
    """True if each of the coming buffers, taken alone, has a gap between the buffers that are still in use then.

    `taken`: what others have, in the order of addresses; `own`: what one more takes.
    """
    if not coming:
        return True
    spans = [*taken, _end(memory)]
    insort(spans, own)
    return all([_has_gap(memory, other, spans) for other in coming])


def _has_gap(memory: BankedMemory, item: Lifetime, taken: Sequence[Span]) -> bool:
    """Whether a buffer fits between those of `taken`, in the order of addresses, that are in use when it comes."""
    gap_start, size, first = 0, item.buffer.size, item.first
    for start, stop, last in taken:
        if last < first:
            continue
        if gap_start + size <= start:
            address = legal_address(item.buffer, gap_start, memory.bank_words)
            if address is not None and address + size <= start:
                return True
        if stop > gap_start:
            gap_start = stop
    return False


def _end(memory: BankedMemory) -> Span:
    """What stands behind the last word of a memory, always."""
    return memory.words, memory.words, ALWAYS


def _reuse(item: Lifetime, freed_at: int) -> int:
    """How much too early words are taken that were freed at an operation: 0 if long ago.

    In coarse steps, so that among about equal addresses the next one in the ring is taken.
    """
    return max(0, REUSE_DISTANCE - (item.first - freed_at)) // STEP


def _contention(memory: BankedMemory, placed: Sequence[tuple[int, Lifetime, int]]) -> list[int]:
    """Per bank, for how many cycles others ask for the same port at the same time; `placed` has them with addresses."""
    weights = [0] * memory.banks
    for address, other, cycles in placed:
        banks = _banks(memory, address, other.buffer.size)
        for bank in banks:
            weights[bank] += cycles // len(banks)
    return weights


def _banks(memory: BankedMemory, address: int, size: int) -> range:
    """The banks that a buffer reaches into."""
    return range(address // memory.bank_words, (address + max(size, 1) - 1) // memory.bank_words + 1)
