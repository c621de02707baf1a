"""Orders accesses by waits: which reads and writes of the same words may happen in the wrong order.

Each instruction has a clock: per engine, how many of its instructions are certainly completed when this one starts.
What an instruction knows is what its waits say, what was known at the start of the instructions that it waits for, and
what was known at the start of its predecessor on its own engine (engines start in order). An access is safe if every
earlier access to its words that must come first belongs to an instruction within the clock.

Words are grouped into pieces that the whole program treats alike, so the cost follows what the program distinguishes
and not the size of a memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import OperandAccess, expand
from tilewright.isa.check.order_kernel import FULL, find_clocks, find_unordered
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets, require
from tilewright.isa.program.program import Program
from tilewright.isa.templates.table import facet_of

Integers = NDArray[np.int64]

PIECES_AT_A_TIME = 16
"""Pieces that are looked at as fast as one of an access of its own is made."""

ROOM = 64
"""For so many hazards there is room at first; a program that is right has none."""


class HazardKind(Enum):
    UNWRITTEN = "unwritten"
    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


OVER_BUDGET = "the accesses cut each other into %s of memory, each to be checked"


@dataclass(frozen=True, slots=True)
class Hazard:
    """An access of `instruction` that may happen too early.

    `earlier` is the last instruction of its engine that must be completed first, `count` the wait count that says so;
    both are -1 for a read of words that nothing has written.
    """

    kind: HazardKind
    instruction: int
    access: OperandAccess
    word: int
    earlier: int = -1
    count: int = -1


@dataclass(frozen=True, slots=True)
class BadWait:
    """A wait for `count` instructions of an engine, of which only `earlier` come before `instruction`."""

    instruction: int
    engine: str
    count: int
    earlier: int


def wait_clocks(program: Program) -> tuple[NDArray[np.int32], list[BadWait]]:
    """Per instruction and engine, the instructions that are certainly completed when it starts: int32 [n, engines].

    Also each wait that names an instruction which is not earlier; the clocks take such a wait for as much as there is.
    """
    engines, instructions = list(program.machine.engines), program.instructions
    count, engine = len(instructions), _engine_numbers(instructions)
    waits = np.zeros((count, len(engines)), np.int64)
    for index, instruction in enumerate(instructions):
        values = instruction.values
        for number, (_, place) in enumerate(instruction.format.wait_places):
            if values[place]:
                waits[index, number] = values[place]
    clocks, missing = np.zeros((count, len(engines)), np.int32), np.zeros((count, len(engines)), np.bool_)
    by_engine, counts = np.zeros((len(engines), count), np.int64), np.zeros(len(engines), np.int64)
    find_clocks(engine, waits, by_engine, counts, clocks, missing)
    bad = [
        BadWait(index, engines[e], int(waits[index, e]), int((engine[:index] == e).sum()))
        for index, e in np.argwhere(missing).tolist()
    ]
    return clocks, bad


def _engine_numbers(instructions: Sequence[Instruction]) -> Integers:
    return np.array([instruction.engine.number for instruction in instructions], np.int64)


def find_hazards(
    program: Program,
    accesses: Sequence[tuple[OperandAccess, ...]],
    clocks: NDArray[np.int32],
    initialised: Mapping[str, int],
    expected: Sequence[Integers],
    budgets: Budgets = DEFAULT_BUDGETS,
) -> tuple[list[Hazard], list[tuple[int, int]]]:
    """Hazards of all accesses in program order, and (number, first byte) of each `expected` output that is not stored.

    `initialised` is how many leading bytes of a region hold something from the start; `expected` are byte ranges of
    the outputs region that must be written when the program ends. Raises OverBudget when the accesses cut each other
    into too many pieces.
    """
    engines = program.machine.engines
    pieces = _Pieces.of(accesses, initialised, expected)
    require(budgets, "pieces", pieces.count // PIECES_AT_A_TIME, OVER_BUDGET)
    engine = _engine_numbers(program.instructions)
    begins = np.cumsum([0, *map(len, accesses)])
    touching = np.repeat(np.arange(len(accesses)), np.diff(begins))
    flat = list(chain.from_iterable(accesses))
    is_write = np.array([access.is_write for access in flat], np.bool_)
    adds = [_adds_to_sums(i, access) for i, own in zip(program.instructions, accesses, strict=True) for access in own]
    keeps_order = np.array(adds, np.bool_)
    rows = _Rows.of(pieces, len(engines), engine[touching], is_write)
    place, room = np.where(rows.is_constant[pieces.place], -1, pieces.place), ROOM
    while True:
        touched, found = rows.at_first(pieces), np.zeros((room, 5), np.int64)
        hazards = find_unordered(
            engine,
            np.zeros(len(engines), np.int64),
            clocks,
            begins,
            place[: len(flat)],
            is_write,
            keeps_order,
            pieces.range_begins,
            pieces.begins,
            pieces.ends,
            rows.begins,
            rows.unwritten,
            touched,
            found,
        )
        if hazards != FULL:
            break
        room *= 16
    by_engine = [np.flatnonzero(engine == e) for e in range(len(engines))]
    unordered = [
        _hazard(int(touching[at]), flat[at], kind, by, count, pieces.first_word(at, piece), by_engine)
        for at, kind, by, count, piece in found[:hazards].tolist()
    ]
    return unordered, _unwritten(pieces, range(len(flat), len(pieces.place)), rows, touched)


def _unwritten(pieces: _Pieces, expected: range, rows: _Rows, touched: NDArray[np.int32]) -> list[tuple[int, int]]:
    """(number, first byte) of each expected output of which something is not stored, after the last instruction."""
    found = []
    for number, at in enumerate(expected):
        missing = pieces.among(at, touched[rows.unwritten[pieces.place[at]] :])
        if len(missing):
            found.append((number, pieces.first_word(at, int(missing[0]))))
    return found


def _hazard(
    index: int, access: OperandAccess, kind: int, by: int, count: int, word: int, by_engine: Sequence[Integers]
) -> Hazard:
    """One hazard, from a row of `find_unordered`."""
    from tilewright.isa.check.order_kernel import READ

    if by == len(by_engine):  # nobody has written there
        return Hazard(HazardKind.UNWRITTEN, index, access, word)
    earlier = int(by_engine[by][count - 1])
    if not access.is_write:
        return Hazard(HazardKind.READ_AFTER_WRITE, index, access, word, earlier, count)
    what = HazardKind.WRITE_AFTER_READ if kind == READ else HazardKind.WRITE_AFTER_WRITE
    return Hazard(what, index, access, word, earlier, count)


def _adds_to_sums(instruction: Instruction, access: OperandAccess) -> bool:
    """True for the one read that needs no wait for its own engine: the array keeps the order of its sums."""
    is_sum = not access.is_write and access.operand == instruction.format.destination.name
    return is_sum and facet_of(instruction.engine.template).adds_in_memory


# -- pieces ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pieces:
    """All accesses, and behind them the expected outputs: each as ranges of the pieces that its place is cut into.

    A place is cut where any access begins or ends, and where what is there from the start ends. The ranges of an access
    are those from `range_begins[access]` on, from piece `begins` to before `ends`.
    """

    bounds: tuple[Integers, ...]
    """By place: the first word of each piece, and the end of the last."""
    known: tuple[int, ...]
    """By place: so many words hold something from the start."""
    place: Integers
    range_begins: Integers
    begins: Integers
    ends: Integers

    @staticmethod
    def of(
        accesses: Sequence[tuple[OperandAccess, ...]], initialised: Mapping[str, int], expected: Sequence[Integers]
    ) -> _Pieces:
        flat = list(chain.from_iterable(accesses))
        places = [access.place for access in flat] + ["outputs"] * len(expected)
        names = tuple(dict.fromkeys(places))
        numbers = {name: number for number, name in enumerate(names)}
        place = np.array([numbers[name] for name in places], np.int64)
        words, lengths = _all_ranges([*((a.from_base, a.base) for a in flat), *((ranges, 0) for ranges in expected)])
        of_range = np.repeat(place, lengths)
        known = tuple(initialised.get(name, 0) for name in names)
        cut, bounds = np.empty_like(words), []
        for number, end in enumerate(known):
            own = of_range == number
            bounds.append(_distinct(np.append(words[own], end)))
            cut[own] = np.searchsorted(bounds[-1], words[own])
        begins = np.concatenate([[0], np.cumsum(lengths)])
        return _Pieces(tuple(bounds), known, place, begins, cut[:, 0].copy(), cut[:, 1].copy())

    @property
    def count(self) -> int:
        """How many pieces all accesses have together."""
        return int((self.ends - self.begins).sum())

    def first_word(self, access: int, piece: int) -> int:
        """The first word of a piece of an access."""
        return int(self.bounds[self.place[access]][piece])

    def among(self, access: int, is_chosen: NDArray[np.int32]) -> Integers:
        """The chosen ones of an access's pieces, in order."""
        own = slice(self.range_begins[access], self.range_begins[access + 1])
        pieces = expand(np.stack([self.begins[own], self.ends[own]], axis=1))
        return pieces[is_chosen[pieces] > 0]


def _all_ranges(ranges: Sequence[tuple[Integers, int]]) -> tuple[Integers, Integers]:
    """Ranges that are counted from bases, one after the other and counted from 0, and how many each has."""
    distinct = {id(own): own for own, _ in ranges}
    numbers = {key: number for number, key in enumerate(distinct)}
    number = np.array([numbers[id(own)] for own, _ in ranges], np.int64)
    base = np.array([base for _, base in ranges], np.int64)
    begins = np.cumsum([0, *map(len, distinct.values())])
    lengths = np.diff(begins)[number]
    ends = np.cumsum(lengths)
    taken = np.repeat(begins[number] - ends + lengths, lengths) + np.arange(lengths.sum())
    table = np.concatenate([*distinct.values(), np.empty((0, 2), np.int64)])
    return table[taken] + np.repeat(base, lengths)[:, None], lengths


def _distinct(values: Integers) -> Integers:
    """The values once each, sorted; np.unique takes ten times as long for millions."""
    values.sort()
    return values[np.append(True, values[1:] != values[:-1])]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A row of counts, one for each piece of a place, for each engine that reads there, and for each that writes.

    One more says where nobody has written. `begins` [places, engines, 2] and `unwritten` [places]: where rows begin,
    -1 for none. A place `is_constant` if all of it is there from the start and nobody writes it.
    """

    begins: Integers
    unwritten: Integers
    is_constant: NDArray[np.bool_]
    length: int

    @staticmethod
    def of(pieces: _Pieces, engines: int, engine: Integers, is_write: NDArray[np.bool_]) -> _Rows:
        """`engine` and `is_write` of each access, of so many engines."""
        nobody = engines  # stands for an engine where words have not been written; every clock says 0 of it
        sizes = np.array([len(bounds) - 1 for bounds in pieces.bounds], np.int64)
        uses = np.zeros((len(sizes), engines + 1, 2), np.int64)
        uses[pieces.place[: len(engine)], engine, is_write.astype(np.int64)] = 1
        is_written = uses[:, :, 1].any(axis=1)
        ends = np.array([bounds[-1] for bounds in pieces.bounds], np.int64)
        uses[:, nobody, 1] = 1
        room = uses * sizes[:, None, None]
        after = np.cumsum(room.reshape(-1)).reshape(room.shape)
        begins = np.where(uses > 0, after - room, -1)
        is_constant = ~is_written & (ends <= np.array(pieces.known, np.int64))
        return _Rows(begins[:, :nobody].copy(), begins[:, nobody, 1].copy(), is_constant, int(room.sum()))

    def at_first(self, pieces: _Pieces) -> NDArray[np.int32]:
        """The counts before the first instruction."""
        touched = np.zeros(self.length, np.int32)
        for begin, bounds, known in zip(self.unwritten.tolist(), pieces.bounds, pieces.known, strict=True):
            touched[begin + int(np.searchsorted(bounds, known)) : begin + len(bounds) - 1] = 1
        return touched
