"""Orders accesses by waits: which reads and writes of the same words may happen in the wrong order.

Each instruction has a clock: per engine, how many of its instructions are certainly completed when this one starts.
What an instruction knows is what its waits say, what was known at the start of the instructions that it waits for, and
what was known at the start of its predecessor on its own engine (engines start in order). An access is safe if every
earlier access to its words that must come first belongs to an instruction within the clock.

Words are grouped into pieces that the whole program treats alike, so the cost follows what the program distinguishes
and not the size of a memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import Access
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import ENGINES, TEMPLATES, Template
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets, require
from tilewright.isa.program.program import Program

Pieces = slice | NDArray[np.int64]

PIECES_AT_A_TIME = 16
"""Pieces that are looked at as fast as one of an access of its own is made."""


class HazardKind(Enum):
    UNWRITTEN = "unwritten"
    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


NUMBERS = {engine: number for number, engine in enumerate(ENGINES)}

NOBODY = len(ENGINES)
"""Stands for an engine where words have not been written; every clock says 0 of it."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """An access of `instruction` that may happen too early.

    `earlier` is the last instruction of its engine that must be completed first, `count` the wait count that says so;
    both are -1 for a read of words that nothing has written.
    """

    kind: HazardKind
    instruction: int
    access: Access
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


def wait_clocks(instructions: Sequence[Instruction]) -> tuple[NDArray[np.int32], list[BadWait]]:
    """Per instruction and engine, the instructions that are certainly completed when it starts: int32 [n, engines].

    Also each wait that names an instruction which is not earlier; the clocks take such a wait for as much as there is.
    """
    clocks: list[list[int]] = []
    by_engine: list[list[int]] = [[] for _ in ENGINES]  # instruction indices, in program order
    bad: list[BadWait] = []
    for index, instruction in enumerate(instructions):
        mine = by_engine[NUMBERS[instruction.engine]]
        clock = list(clocks[mine[-1]]) if mine else [0] * len(ENGINES)
        for engine, place in instruction.format.wait_places:
            count = instruction.values[place]
            if not count:
                continue
            number = NUMBERS[engine]
            if count > len(by_engine[number]):
                bad.append(BadWait(index, engine, count, len(by_engine[number])))
                count = len(by_engine[number])
            if count > clock[number]:
                seen = clocks[by_engine[number][count - 1]]
                clock = [max(a, b) for a, b in zip(clock, seen, strict=True)]
                clock[number] = max(clock[number], count)
        clocks.append(clock)
        mine.append(index)
    return np.array(clocks, np.int32).reshape(-1, len(ENGINES)), bad


def find_hazards(
    program: Program,
    accesses: Sequence[tuple[Access, ...]],
    clocks: NDArray[np.int32],
    initialised: Mapping[str, int],
    expected: Sequence[NDArray[np.int64]],
    budgets: Budgets = DEFAULT_BUDGETS,
) -> tuple[list[Hazard], list[tuple[int, int]]]:
    """Hazards of all accesses in program order, and (number, first byte) of each `expected` output that is not stored.

    `initialised` is how many leading bytes of a region hold something from the start; `expected` are byte ranges of
    the outputs region that must be written when the program ends. Raises OverBudget when the accesses cut each other
    into too many pieces.
    """
    places = _build_places(program.instructions, accesses, initialised, expected)
    compared = sum(place.piece_count for place in places.values()) // PIECES_AT_A_TIME
    require(budgets, "pieces", compared, "the accesses cut each other into %s of memory, each to be checked")
    by_engine: list[list[int]] = [[] for _ in ENGINES]
    hazards: list[Hazard] = []
    nobody = np.zeros((len(clocks), 1), clocks.dtype)
    steps = zip(program.instructions, accesses, np.hstack([clocks, nobody]).tolist(), strict=True)
    for index, (instruction, touched, clock) in enumerate(steps):
        engine = NUMBERS[instruction.engine]
        count = len(by_engine[engine]) + 1
        for access in touched:
            place = places[access.place]
            if place.is_constant:
                continue
            pieces = place.next_pieces()
            latest, follows = place.before(access.is_write, pieces)
            for row, (count_before, (kind, by)) in enumerate(zip(latest, follows, strict=True)):
                if count_before <= clock[by] or _keeps_order(instruction, access, engine, by):
                    continue
                word = place.first_word(access.is_write, pieces, row, clock[by])
                earlier = (-1, -1) if by == NOBODY else (by_engine[by][count_before - 1], count_before)
                hazards.append(Hazard(kind, index, access, word, *earlier))
            place.note(access.is_write, pieces, engine, count)
        by_engine[engine].append(index)
    return hazards, _unwritten_outputs(places.get("outputs"), expected)


def _keeps_order(instruction: Instruction, access: Access, engine: int, by: int) -> bool:
    """Whether an engine that touched the words before works in order: then nobody has to wait for it.

    It is the same engine, and its access is a write, or a read of the sums to which the array adds.
    """
    return by == engine and (access.is_write or _adds_to_sums(instruction, access))


def _adds_to_sums(instruction: Instruction, access: Access) -> bool:
    """True for the one read that needs no wait for its own engine: the array keeps the order of its sums."""
    is_sum = access.operand == instruction.format.destination.name
    return is_sum and TEMPLATES[instruction.engine] is Template.SYSTOLIC


# -- pieces ------------------------------------------------------------------------------------------------------------


class _Place:
    """One memory or region, cut where any access begins or ends; who last read and wrote each piece.

    A piece has a row for each engine that reads the place, one for each that writes it, and one of what is not written:
    so what a write must come after stands together, and so does what a read must come after.
    """

    def __init__(
        self,
        bounds: NDArray[np.int64],
        pieces: Iterator[Pieces],
        piece_count: int,
        initialised: int,
        readers: Collection[int],
        writers: Collection[int],
    ) -> None:
        self.is_constant = not writers and int(bounds[-1]) <= initialised
        """Whether all of it is there from the start and nobody writes it, so that reads come when they like."""
        self._bounds = bounds
        self._pieces = pieces
        self.piece_count = piece_count
        """How many pieces all accesses have together."""
        first = len(readers)
        self._read_row = {engine: row for row, engine in enumerate(sorted(readers))}
        self._write_row = {engine: row for row, engine in enumerate(sorted(writers), first)}
        kinds = [
            *((HazardKind.WRITE_AFTER_READ, engine) for engine in self._read_row),
            *((HazardKind.WRITE_AFTER_WRITE, engine) for engine in self._write_row),
            *((HazardKind.READ_AFTER_WRITE, engine) for engine in self._write_row),
            (HazardKind.UNWRITTEN, NOBODY),
        ]
        last, count = first + len(writers), max(1, len(bounds) - 1)
        self._rows = np.zeros((last + 1, count), np.int32)  # instructions of an engine up to its last access
        self._is_unwritten = self._rows[last]  # 1 where that is so
        self._is_unwritten[int(np.searchsorted(bounds, initialised)) :] = 1
        self._before_reads, self._kinds_of_reads = self._rows[first:], kinds[last:]
        self._before_writes, self._kinds_of_writes = self._rows[:last], kinds[:last]

    def next_pieces(self) -> Pieces:
        """The pieces of the next access to this place, in program order."""
        return next(self._pieces)

    def before(self, is_write: bool, pieces: Pieces) -> tuple[list[int], Sequence[tuple[HazardKind, int]]]:
        """Counts of what an access must come after, and for each what it is if it does not, and of which engine."""
        rows = self._before_writes if is_write else self._before_reads
        kinds = self._kinds_of_writes if is_write else self._kinds_of_reads
        if isinstance(pieces, slice) and pieces.stop - pieces.start == 1:
            return rows[:, pieces.start].tolist(), kinds  # as below, six times as fast
        # take is up to ten times as fast as an index of many pieces
        own = rows[:, pieces] if isinstance(pieces, slice) else rows.take(pieces, axis=1)
        return np.maximum.reduce(own, axis=1).tolist(), kinds

    def note(self, is_write: bool, pieces: Pieces, engine: int, count: int) -> None:
        if is_write:
            self._rows[self._write_row[engine]][pieces] = count
            self._is_unwritten[pieces] = 0
        else:
            self._rows[self._read_row[engine]][pieces] = count

    def first_word(self, is_write: bool, pieces: Pieces, row: int, known: int) -> int:
        """The first word of the first piece of which a row of `before` is beyond what is known."""
        rows = self._before_writes if is_write else self._before_reads
        return self._first_word(pieces, rows[row, pieces] > known)

    def first_unwritten(self, pieces: Pieces) -> int | None:
        """The first word of some pieces that has not been written; None if all are."""
        is_missing = self._is_unwritten[pieces] > 0
        return self._first_word(pieces, is_missing) if is_missing.any() else None

    def _first_word(self, pieces: Pieces, chosen: NDArray[np.bool_]) -> int:
        offset = int(np.flatnonzero(chosen)[0])
        piece = pieces.start + offset if isinstance(pieces, slice) else int(pieces[offset])
        return int(self._bounds[piece])


def _build_places(
    instructions: Sequence[Instruction],
    accesses: Sequence[tuple[Access, ...]],
    initialised: Mapping[str, int],
    expected: Sequence[NDArray[np.int64]],
) -> dict[str, _Place]:
    ranges: dict[str, list[NDArray[np.int64]]] = {}
    users: dict[tuple[str, bool], set[int]] = defaultdict(set)  # by place and whether they write it
    for instruction, touched in zip(instructions, accesses, strict=True):
        engine = NUMBERS[instruction.engine]
        for access in touched:
            ranges.setdefault(access.place, []).append(access.ranges)
            users[access.place, access.is_write].add(engine)
    if expected:
        ranges.setdefault("outputs", []).extend(expected)
    places = {}
    for name, touched_ranges in ranges.items():
        end = initialised.get(name, 0)
        bounds = _distinct(np.concatenate([*(r.reshape(-1) for r in touched_ranges), np.array([end], np.int64)]))
        cut = np.searchsorted(bounds, np.concatenate(touched_ranges))
        piece_count = int((cut[:, 1] - cut[:, 0]).sum())
        pieces = _piece_sets(cut, touched_ranges)
        places[name] = _Place(bounds, pieces, piece_count, end, users[name, False], users[name, True])
    return places


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values once each, sorted; np.unique takes ten times as long for millions."""
    values.sort()
    return values[np.append(True, values[1:] != values[:-1])]


def _piece_sets(cut: NDArray[np.int64], touched_ranges: list[NDArray[np.int64]]) -> Iterator[Pieces]:
    """Each access's ranges of words, given as `cut`, as the pieces that they are made of."""
    lengths = cut[:, 1] - cut[:, 0]
    ends = np.cumsum(lengths)  # how many pieces there are up to the end of each range
    shifts = cut[:, 1] - ends
    first, begin = 0, 0
    for ranges in touched_ranges:
        last = first + len(ranges)
        end = int(ends[last - 1]) if last else 0
        if last == first + 1:
            shift = int(shifts[first])
            yield slice(begin + shift, end + shift)
        else:
            yield np.arange(begin, end) + shifts[first:last].repeat(lengths[first:last])
        first, begin = last, end


def _unwritten_outputs(outputs: _Place | None, expected: Sequence[NDArray[np.int64]]) -> list[tuple[int, int]]:
    if outputs is None:
        return []
    missing = [outputs.first_unwritten(outputs.next_pieces()) for _ in expected]
    return [(number, first) for number, first in enumerate(missing) if first is not None]
