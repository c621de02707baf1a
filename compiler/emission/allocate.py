"""Chooses an address for each buffer of a tile program, from the buffers' lifetimes.

Two buffers may share words when one's last operation comes before the other's first. On chip, buffers are placed as in
a ring: a new buffer goes to the bank whose port others use least at that time. So what an operation reads comes in one
cycle, and the next tile's load does not wait for this tile's compute. In the bank, it goes where the words have been
free for longest, and not across the end of the bank: a buffer in two banks leaves only the others to what is used at
the same time later. Where a gap is missing, those in the way are placed again, at last in any bank. A memory in which
that does not end, and DRAM, are packed for size.

A bank has one read port and one write port. So two buffers that two engines read at the same time, or that one
operation reads, contend, and should be in different banks. Where a bank has one port for both, so should one that is
read and one that is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.dependences import durations
from tilewright.compiler.emission.kernels.contention import estimate_starts, find_contention
from tilewright.compiler.emission.kernels.ring import DONE, LOOKAHEAD, fill
from tilewright.compiler.emission.packing import (
    NOWHERE,
    REUSE_DISTANCE,
    Lifetime,
    MemoryBanks,
    buffer_lifetimes,
    height,
    legal_address,
    live_lower_bound,
    pack,
)
from tilewright.compiler.emission.placed import PlacedTiles, Placement
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.tile.accesses import Integers, engine_numbers
from tilewright.compiler.tile.program import WORKSPACE, TileProgram, forms

PACKED = "its buffers are packed for size; engines may wait for each other's words, and a larger memory would be faster"
"""The remark about a memory that is nearly full all the time."""


def allocate(program: TileProgram, starts: Integers | None = None) -> PlacedTiles:
    """Choose an address for every buffer; deterministic. `starts`: the cycle in which each operation starts, if known.

    Buffers that are alive at the same time never share a word; alignment and banks are as `TileBuffer` says. Remarks of
    the program say which memories are crowded. Raises DoesNotFit, naming the layer in which the memory overflows.
    """
    lifetimes = buffer_lifetimes(program)
    addresses = {b.name: b.offset for b in program.buffers.values() if b.offset is not None}
    contending = contention(program, starts)
    remarks: dict[str, str] = {}
    for memory in program.machine.memories.values():
        items = _waiting_in(memory.name, lifetimes)
        banked = MemoryBanks(memory.name, memory.stretch_words, memory.stretches)
        ring = place_in_ring(banked, items, contending)
        if ring is None:
            packed = pack(items, banked.bank_words)
            _require_fit(program, banked, items, packed)
            remarks[f"room in {memory.name}"] = PACKED
        elif ring.moved or ring.crowded:
            remarks[f"room in {memory.name}"] = _crowded_remark(program, items, {*ring.moved, *ring.crowded})
        addresses.update(packed if ring is None else ring.addresses)
    workspace = _waiting_in(WORKSPACE, lifetimes)
    packed = pack(workspace)
    addresses.update(packed)
    return PlacedTiles(program.with_remarks(remarks), Placement(addresses, height(workspace, packed)))


def _crowded_remark(program: TileProgram, items: Sequence[Lifetime], crowded: Collection[str]) -> str:
    """How many buffers are not where they were to be, and in which layers."""
    layers = dict.fromkeys(
        program.layers[program.operations[item.first].layer].name for item in items if item.buffer.name in crowded
    )
    first, *others = layers
    where = f"{first} and {len(others)} other layers" if len(others) > 1 else " and ".join(layers)
    return f"{len(crowded)} of {len(items)} buffers made room for others, in {where}; engines may wait for their words"


def _waiting_in(place: str, lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    """The buffers of a memory or region that have no fixed offset."""
    return [life for life in lifetimes if life.buffer.place == place and life.buffer.offset is None]


def _require_fit(
    program: TileProgram, memory: MemoryBanks, items: Sequence[Lifetime], placed: Mapping[str, int]
) -> None:
    """Raise DoesNotFit of the first buffer that ends beyond the memory, or that no bank holds."""
    for item in sorted(items, key=lambda life: life.first):
        top = placed[item.buffer.name] + item.buffer.size
        if top <= memory.words and legal_address(item.buffer, 0, memory.bank_words) is not None:
            continue
        together = live_lower_bound([other for other in items if other.meets(item)])
        needed = together if together > memory.words else max(top, memory.words + 1)
        layer = program.layers[program.operations[item.first].layer].name
        raise DoesNotFit(memory.name, needed, memory.words, layer)


# -- as in a ring ------------------------------------------------------------------------------------------------------


MOST_MOVES = 16
"""How often one buffer may give its place to another."""

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


def place_in_ring(memory: MemoryBanks, items: Sequence[Lifetime], contention: Contention) -> RingPlaces | None:
    """Addresses in banks that others do not use at the same time (`contention`), and there on words long free.

    An address that would leave no gap for a large buffer that is still to come while this one lives is avoided, too.
    Where a gap is missing nevertheless, the buffers in the way are placed again, and all others stay. Where that does
    not end soon, all that live there go where there is room, in any bank: first those of the same operations, then
    those of more and more around them. None when that does not help either.
    """
    crowded: frozenset[int] = frozenset()
    reach = 0
    while True:
        ring = _PlacedBuffers(memory, items, contention, crowded)
        stuck = ring.fill()
        if stuck is None:
            return ring.places()
        if not contention or len(crowded) == len(items):
            return None
        first, last = items[stuck].first - reach, items[stuck].last + reach
        crowded |= {at for at, item in enumerate(items) if item.first <= last and item.last >= first}
        reach = max(REUSE_DISTANCE, WIDER * reach)


class _PlacedBuffers:
    """A memory with the buffers that have a place so far."""

    def __init__(
        self, memory: MemoryBanks, items: Sequence[Lifetime], contention: Contention, crowded: frozenset[int]
    ) -> None:
        """`crowded`: the positions of buffers that go where there is room, in any bank."""
        self._memory = memory
        self._items = items
        self._crowded = crowded
        facts = [(i.first, i.last, i.buffer.size, i.buffer.alignment, i.buffer.is_in_bank) for i in items]
        self._columns = np.array(facts, np.int64).reshape(-1, 5).T.copy()
        self._first, self._last, self._sizes, *_ = self._columns
        self._contention = _contention(items, contention)
        self._is_waiting = np.ones(len(items), np.bool_)
        self.addresses = np.full(len(items), NOWHERE, np.int64)
        self.moves: dict[int, int] = {}  # how often a buffer had to give its place to another
        self._tries: dict[tuple[int, int], int] = {}  # how often a buffer has taken an address from others
        # The last operation of each word's last owner; one word more, so that any word may be the end of others.
        self._freed_at = np.full(memory.words + 1, -REUSE_DISTANCE, np.int64)
        self._pointer = np.zeros(1, np.int64)
        self._bank_pointers = np.arange(memory.banks) * memory.bank_words  # behind each bank's newest

    def fill(self) -> int | None:
        """Place all buffers; the position of the one for which that does not end soon, None if it did for all."""
        memory, count = self._memory, len(self._items)
        is_crowded = np.zeros(count, np.bool_)
        is_crowded[list(self._crowded)] = True
        fixed = *self._columns, *self._contention, is_crowded, memory.words, memory.bank_words
        state = self._is_waiting, self.addresses, self._freed_at, self._pointer, self._bank_pointers
        sizes = count, count, count + 1, 2 * memory.banks, *[memory.words + 1] * 3, memory.banks, LOOKAHEAD
        room = [np.zeros(size, np.int64) for size in sizes]
        while True:  # a buffer that is placed again comes before those behind it
            position = fill(*fixed, *state, *room)
            if position == DONE:
                return None
            in_the_way = self.make_room(position)
            if in_the_way is None:
                return int(position)
            self._is_waiting[in_the_way] = True
            self._is_waiting[position] = False

    def places(self) -> RingPlaces:
        names = [item.buffer.name for item in self._items]
        addresses = dict(zip(names, self.addresses.tolist(), strict=True))
        moved, crowded = (tuple(names[at] for at in sorted(found)) for found in (self.moves, self._crowded))
        return RingPlaces(addresses, moved, crowded)

    def make_room(self, position: int) -> list[int] | None:
        """Place a buffer where the smallest buffers are in the way, and take those away.

        An address counts twice as much each time that the buffer has tried it, so that no two buffers take each other's
        place for ever. None when one has moved too often, or no address is legal.
        """
        memory, item = self._memory, self._items[position]
        live = self._live_beside(item)
        spans = {at: (int(self.addresses[at]), int(self.addresses[at] + self._sizes[at])) for at in live}
        found: tuple[int, int, list[int]] | None = None
        for start in sorted({0, *chain.from_iterable(spans.values())}):
            address = legal_address(item.buffer, start, memory.bank_words)
            if address is None or address + item.buffer.size > memory.words:
                continue
            end = address + item.buffer.size
            in_the_way = [at for at, (begin, stop) in spans.items() if begin < end and stop > address]
            taken = sum(stop - begin for begin, stop in map(spans.__getitem__, in_the_way))
            cost = taken << self._tries.get((position, address), 0)
            if found is None or (cost, address) < found[:2]:
                found = cost, address, in_the_way
        if found is None or any(self.moves.get(at, 0) >= MOST_MOVES for at in found[2]):
            return None
        _, address, in_the_way = found
        self._tries[position, address] = self._tries.get((position, address), 0) + 1
        for at in in_the_way:
            self.addresses[at] = NOWHERE
            self.moves[at] = self.moves.get(at, 0) + 1
        self._place(position, address)
        return in_the_way

    def _live_beside(self, item: Lifetime) -> list[int]:
        """The buffers that have a place and are in use at any of an item's operations."""
        is_live = (self.addresses != NOWHERE) & (self._first <= item.last) & (self._last >= item.first)
        found: list[int] = np.flatnonzero(is_live).tolist()
        return found

    def _place(self, position: int, address: int) -> None:
        end = address + self._items[position].buffer.size
        self.addresses[position] = address
        self._pointer[0] = self._bank_pointers[(end - 1) // self._memory.bank_words] = end
        self._freed_at[address:end] = self._items[position].last


def _contention(items: Sequence[Lifetime], contention: Contention) -> tuple[Integers, Integers, Integers]:
    """The contention of each item: where its part of the others begins, the positions of these, and the cycles."""
    at = {item.buffer.name: position for position, item in enumerate(items)}
    found = [
        [(at[name], cycles) for name, cycles in contention.get(item.buffer.name, {}).items() if name in at]
        for item in items
    ]
    begins = np.cumsum([0, *map(len, found)])
    others, cycles = np.array(list(chain.from_iterable(found)), np.int64).reshape(-1, 2).T.copy()
    return begins, others, cycles


# -- which buffers are used at the same time through the same kind of port ---------------------------------------------


Contention = Mapping[str, Mapping[str, int]]
"""By buffer, the others and the cycles; buffers of different memories never contend."""

PAIRS_FOR_EACH = 8
"""For so many pairs of each access there is room at first."""


class PortColumns(NamedTuple):
    """Accesses on chip, as `kernels.contention` goes through them: those of an operation from `begins[operation]` on.

    Of each operation its `engine` and for how many cycles that is `busy`. Of each access its `buffer` and `memory`, by
    number; which `port` of a bank it uses; so many `words`, read or written from cycle `begin` after the operation's
    start to before `end`; and whether it `is_first`: where another engine wants the port in the same cycle, that engine
    waits.
    """

    begins: Integers
    engine: Integers
    busy: Integers
    buffer: Integers
    memory: Integers
    port: Integers
    is_write: NDArray[np.bool_]
    is_first: NDArray[np.bool_]
    begin: Integers
    end: Integers
    words: Integers


def contention(program: TileProgram, starts: Integers | None = None) -> Contention:
    """The contention of all buffers on chip; `starts`: the cycle in which each operation starts, if a run has shown it.

    Without, it is estimated: in program order, when their engine is free and what they read is there.
    """
    columns, count, names = _columns(program), len(program.operations), list(program.buffers)
    engines = len(program.machine.engines)
    if starts is None:
        starts = np.zeros(count, np.int64)
        estimate_starts(columns, np.zeros(engines, np.int64), np.zeros(len(names), np.int64), starts)
    order = np.argsort(starts, kind="stable")
    room = PAIRS_FOR_EACH * len(columns.buffer) + 1
    while True:
        found, pairs = np.zeros((room, 3), np.int64), np.zeros(1, np.int64)
        queues, ends = np.zeros((engines, count), np.int64), np.zeros(count, np.int64)
        heads, tails = np.zeros((2, engines), np.int64)
        if find_contention(columns, order, starts, queues, heads, tails, ends, found, pairs):
            break
        room *= 4
    one, other, cycles = found[: pairs[0]].T
    both = np.concatenate([one * len(names) + other, other * len(names) + one])
    distinct, inverse = np.unique(both, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, inverse, np.concatenate([cycles, cycles]))
    beside: dict[str, dict[str, int]] = {}
    for pair, met in zip(distinct.tolist(), total.tolist(), strict=True):
        buffer, neighbour = divmod(pair, len(names))
        beside.setdefault(names[buffer], {})[names[neighbour]] = met
    return beside


def _columns(program: TileProgram) -> PortColumns:
    numbers = {name: number for number, name in enumerate(program.buffers)}
    memories = {name: number for number, name in enumerate(program.machine.memories)}
    of_form: dict[int, list[tuple[str, tuple[int, ...]]]] = {}  # by operand
    counts, buffers, rows = [0], list[int](), list[tuple[int, ...]]()
    of_each = zip(program.operations, program.of_each(forms), program.of_each(durations), strict=True)
    for operation, form, work in of_each:
        if form not in of_form:
            accesses = [access for access in work.accesses if access.times]
            of_form[form] = [(of.operand.name, (memories[of.operand.memory], *of[1:])) for of in accesses]
        counts.append(len(of_form[form]))
        for operand, row in of_form[form]:
            buffers.append(numbers[operation.bases[operand].buffer])
            rows.append(row)
    memory, words, begin, end, is_write, is_first = np.array(rows, np.int64).reshape(-1, 6).T.copy()
    has_one_port = np.array([of.has_one_port for of in program.machine.memories.values()])
    return PortColumns(
        begins=np.cumsum(counts),
        engine=engine_numbers(program),
        busy=np.array([work.busy for work in program.of_each(durations)], np.int64),
        buffer=np.array(buffers, np.int64),
        memory=memory,
        port=np.where(has_one_port[memory], 0, is_write),
        is_write=is_write != 0,
        is_first=is_first != 0,
        begin=begin,
        end=end,
        words=words,
    )
