"""Orders accesses by waits: which reads and writes of the same words may happen in the wrong order.

Each instruction has a clock: per engine, how many of its instructions are certainly completed when this one starts.
What an instruction knows is what its waits say, what was known at the start of the instructions that it waits for, and
what was known at the start of its predecessor on its own engine (engines start in order). An access is safe if every
earlier access to its words that must come first belongs to an instruction within the clock.

Words are grouped into pieces that the whole program treats alike, so the cost follows what the program distinguishes
and not the size of a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import Access, expand
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


AFTER_WRITES = [(HazardKind.READ_AFTER_WRITE, by) for by in range(len(ENGINES))]
"""What a read that comes too early is, by the number of the engine that writes."""

AFTER_BOTH = [
    *((HazardKind.WRITE_AFTER_READ, by) for by in range(len(ENGINES))),
    *((HazardKind.WRITE_AFTER_WRITE, by) for by in range(len(ENGINES))),
]
"""What a write that comes too early is: after a read of an engine, after a write of an engine."""


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
        mine = by_engine[ENGINES.index(instruction.engine)]
        clock = list(clocks[mine[-1]]) if mine else [0] * len(ENGINES)
        for number, (engine, count) in enumerate(instruction.waits.items()):
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
    places = _build_places(accesses, initialised, expected)
    compared = sum(place.piece_count for place in places.values()) // PIECES_AT_A_TIME
    require(budgets, "pieces", compared, "the accesses cut each other into %s of memory, each to be checked")
    by_engine: list[list[int]] = [[] for _ in ENGINES]
    hazards: list[Hazard] = []
    steps = zip(program.instructions, accesses, clocks.tolist(), strict=True)
    for index, (instruction, touched, clock) in enumerate(steps):
        engine = ENGINES.index(instruction.engine)
        count = len(by_engine[engine]) + 1
        for access in touched:
            place = places[access.place]
            if place.is_constant:
                continue
            pieces = place.next_pieces()
            for kind, word, by, earlier in _late_accesses(instruction, access, place, pieces, clock, engine):
                first = by_engine[by][earlier - 1] if by >= 0 else -1
                hazards.append(Hazard(kind, index, access, word, first, earlier))
            place.note(access.is_write, pieces, engine, count)
        by_engine[engine].append(index)
    return hazards, _unwritten_outputs(places.get("outputs"), expected)


def _late_accesses(
    instruction: Instruction, access: Access, place: _Place, pieces: Pieces, clock: Sequence[int], engine: int
) -> Iterator[tuple[HazardKind, int, int, int]]:
    """(kind, first word, engine number, count that must be waited for) of everything wrong with one access."""
    if access.is_write:
        kinds, counts, in_order = AFTER_BOTH, place.counts, engine
    else:
        if not np.logical_and.reduce(place.is_written[pieces]):
            yield HazardKind.UNWRITTEN, place.first_word(pieces, ~place.is_written[pieces]), -1, -1
        kinds, counts = AFTER_WRITES, place.writes
        in_order = engine if _adds_to_sums(instruction, access) else -1
    latest: list[int] = np.maximum.reduce(counts[:, pieces], axis=1).tolist()
    for row, (count, (kind, by)) in enumerate(zip(latest, kinds, strict=True)):
        # An engine's own writes come after its earlier reads and writes: it works in order.
        if count > clock[by] and by != in_order:
            yield kind, place.first_word(pieces, counts[row, pieces] > clock[by]), by, count


def _adds_to_sums(instruction: Instruction, access: Access) -> bool:
    """True for the one read that needs no wait for its own engine: the array keeps the order of its sums."""
    is_sum = access.operand == instruction.format.destination.name
    return is_sum and TEMPLATES[instruction.engine] is Template.SYSTOLIC


# -- pieces ------------------------------------------------------------------------------------------------------------


class _Place:
    """One memory or region, cut where any access begins or ends; who last read and wrote each piece."""

    def __init__(
        self,
        bounds: NDArray[np.int64],
        pieces: Iterator[Pieces],
        piece_count: int,
        initialised: int,
        is_read_only: bool,
    ) -> None:
        self.is_constant = is_read_only and int(bounds[-1]) <= initialised
        """Whether all of it is there from the start and nobody writes it, so that reads come when they like."""
        self._bounds = bounds
        self._pieces = pieces
        self.piece_count = piece_count
        """How many pieces all accesses have together."""
        count = max(1, len(bounds) - 1)
        self.counts = np.zeros((2 * len(ENGINES), count), np.int32)  # instructions of an engine up to its last access
        self.reads, self.writes = self.counts[: len(ENGINES)], self.counts[len(ENGINES) :]
        self.is_written = np.zeros(count, bool)
        self.is_written[: int(np.searchsorted(bounds, initialised))] = True

    def next_pieces(self) -> Pieces:
        """The pieces of the next access to this place, in program order."""
        return next(self._pieces)

    def note(self, is_write: bool, pieces: Pieces, engine: int, count: int) -> None:
        if is_write:
            self.writes[engine, pieces] = count
            self.is_written[pieces] = True
        else:
            self.reads[engine, pieces] = count

    def first_word(self, pieces: Pieces, chosen: NDArray[np.bool_]) -> int:
        """The first word of the first chosen one of some pieces."""
        offset = int(np.flatnonzero(chosen)[0])
        piece = pieces.start + offset if isinstance(pieces, slice) else int(pieces[offset])
        return int(self._bounds[piece])


def _build_places(
    accesses: Sequence[tuple[Access, ...]], initialised: Mapping[str, int], expected: Sequence[NDArray[np.int64]]
) -> dict[str, _Place]:
    ranges: dict[str, list[NDArray[np.int64]]] = {}
    written = {"outputs"} if expected else set()
    for touched in accesses:
        for access in touched:
            ranges.setdefault(access.place, []).append(access.ranges)
            if access.is_write:
                written.add(access.place)
    if expected:
        ranges.setdefault("outputs", []).extend(expected)
    places = {}
    for name, touched_ranges in ranges.items():
        end = initialised.get(name, 0)
        bounds = _distinct(np.concatenate([*(r.reshape(-1) for r in touched_ranges), np.array([end], np.int64)]))
        cut = np.searchsorted(bounds, np.concatenate(touched_ranges))
        piece_count = int((cut[:, 1] - cut[:, 0]).sum())
        places[name] = _Place(bounds, _piece_sets(cut, touched_ranges), piece_count, end, name not in written)
    return places


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values once each, sorted; np.unique takes ten times as long for millions."""
    values.sort()
    return values[np.append(True, values[1:] != values[:-1])]


def _piece_sets(cut: NDArray[np.int64], touched_ranges: list[NDArray[np.int64]]) -> Iterator[Pieces]:
    """Each access's ranges of words, given as `cut`, as the pieces that they are made of."""
    first = 0
    for ranges in touched_ranges:
        pieces = cut[first : first + len(ranges)]
        first += len(ranges)
        yield slice(int(pieces[0, 0]), int(pieces[0, 1])) if len(pieces) == 1 else expand(pieces)


def _unwritten_outputs(outputs: _Place | None, expected: Sequence[NDArray[np.int64]]) -> list[tuple[int, int]]:
    found = []
    for number in range(len(expected)):
        if outputs is not None:
            pieces = outputs.next_pieces()
            is_missing = ~outputs.is_written[pieces]
            if is_missing.any():
                found.append((number, outputs.first_word(pieces, is_missing)))
    return found
