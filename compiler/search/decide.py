"""Decides the options of a program: recalled if an earlier search found them, searched for otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.compiler.attempts import first_that_fits
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import CompileError, FatalError
from tilewright.compiler.levels import Form
from tilewright.compiler.options import Options
from tilewright.compiler.search.finisher import Finisher
from tilewright.compiler.search.in_rows import search_rows
from tilewright.compiler.search.order import search_ahead
from tilewright.compiler.search.records import SearchSubject, Tuning
from tilewright.compiler.search.search import search_tiling
from tilewright.compiler.search.stand_in import StandIn, stand_in
from tilewright.compiler.search.tuning import place_of, recall, remember
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.session import MemoStage, Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.machine.machine import Machine

SLOWER = 0.01
"""A record of a user's file is searched for anew where the program takes so much more than it says. Programs of one
record differ less: by constants that happen to be equal, behind which others lie elsewhere in DRAM."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """What was found for a selection, and the `arrangement` of its program, if others that look alike can use it."""

    tuning: Tuning
    arrangement: Callable[[], Arrangement | None] = _nothing


PLANS = MemoStage[FoundPlan](10_000)
"""By key of the subject: a network in parts repeats its layers, and what a search finds for one holds for all."""


@dataclass(frozen=True)
class Known:
    """A selection as searches and records see it."""

    subject: SearchSubject
    stand_in: StandIn
    options: Options  # with the names of the stand-in

    @staticmethod
    def of(selection: Selection, options: Options, session: Session) -> Known:
        made, program = stand_in(selection, session), selection.program
        theirs = replace(options, tiling=made.theirs(options.tiling))
        wanted = options.effort, options.passes, *theirs.tiling.told, options.ahead
        layers = tuple([(nest.name, {loop.name: loop.trip for loop in nest.loops}) for nest in program.nests])
        key = hashlib.sha256(f"{made.key} {wanted}".encode()).hexdigest()
        subject = SearchSubject(key, program.name, selection.machine, options.effort, layers, made.buffers)
        return Known(subject, made, theirs)

    def with_tuning(self, tuning: Tuning, options: Options) -> Options:
        """The options, with what was found, in the selection's own names."""
        return replace(options, tiling=self.stand_in.own(tuning.tiling), ahead=tuning.ahead)


@dataclass(frozen=True)
class Decision:
    """The options to tile with; `is_final`: how far operations may move ahead is decided, too.

    `tuning` is what they follow from, of what is `known`; `is_new`: it is to be kept; `is_recorded`: a file of the
    user's own has it. `arrangement` is that of a program that looks alike.
    """

    options: Options
    is_final: bool = True
    known: Known | None = None
    tuning: Tuning | None = None
    is_new: bool = False
    is_recorded: bool = False
    arrangement: Arrangement | None = None

    def ahead(self, tiles: Form, options: Options, finisher: Finisher) -> Ahead:
        """How far operations may move ahead in tiles."""
        if self.is_final or not isinstance(tiles, TileProgram):
            return options.ahead
        return search_ahead(tiles, options, finisher)

    def fault(self, fitting: Options, cycles: Callable[[], int]) -> str:
        """What is wrong with a record, given the options with which the program fits; empty if nothing is."""
        if not self.is_recorded or self.tuning is None:
            return ""
        place, recorded = place_of(self.options.tuning), self.tuning.cycles
        if fitting.tiling != self.options.tiling:
            return f"the program does not fit with the tiles that {place} has"
        if recorded is None or cycles() <= recorded * (1 + SLOWER):
            return ""
        return f"the program takes {cycles():,} cycles where {place} says {recorded:,}"

    def keep(self, cycles: Callable[[], int]) -> None:
        """Keep what a search found; cycles are counted for a file that somebody may read, and later for the check."""
        if self.is_new and self.known is not None and self.tuning is not None:
            file = self.options.tuning
            tuning = self.tuning if file is None else replace(self.tuning, cycles=cycles())
            remember(self.known.subject, tuning, file)


def decide(value: Form, is_scheduled: bool, options: Options, finisher: Finisher) -> Decision:
    """The options for what is to be tiled; for tiles, and what comes after them, the options as they are.

    Raises CompileError if a search would be needed and the options forbid it.
    """
    if options.effort == 0 or is_scheduled:
        return Decision(options)
    if not isinstance(value, Selection):
        return Decision(options, is_final=False)
    known = Known.of(value, options, finisher.session)
    other = finisher.session.known(PLANS, known.subject.key)
    if other is not None:
        tuned = known.with_tuning(other.tuning, options)
        return Decision(tuned, known=known, tuning=other.tuning, arrangement=other.arrangement())
    tuning = recall(known.subject, options.tuning)
    if tuning is not None:
        is_recorded = options.tuning is not None
        tuned = known.with_tuning(tuning, options)
        return Decision(tuned, known=known, tuning=tuning, is_recorded=is_recorded)
    fact = f"{place_of(options.tuning)} has no tuning for this network, machine and effort"
    return search_anew(known, options, finisher, fact, "compile once without --fail-on-miss")


def search_anew(known: Known, options: Options, finisher: Finisher, why: str, remedy: str) -> Decision:
    """What a search finds, whatever is kept. Raises FatalError that says why if the options forbid it."""
    if options.fails_on_miss:
        raise FatalError(known.subject.network, why, remedy=remedy)
    try:
        tuning, arrangement = _searched(known, finisher, known.subject.machine)
    except CompileError:  # that of the network itself has the names of its layers
        return Decision(options)
    tuned = known.with_tuning(tuning, options)
    return Decision(tuned, known=known, tuning=tuning, is_new=True, arrangement=arrangement)


def _searched(known: Known, finisher: Finisher, machine: Machine) -> tuple[Tuning, Arrangement | None]:
    """What a search finds for a stand-in, and the arrangement of its program. Raises CompileError if it has none."""
    selection, options = known.stand_in.selection, known.options
    in_rows = search_rows(selection, options, finisher)
    fitting: list[tuple[TileProgram, Options]] = []

    def place(tiles: TileProgram, attempt: Options) -> PlacedTiles:
        placed = finisher.place(tiles, attempt)
        fitting.append((tiles, attempt))
        return placed

    placed = first_that_fits(
        machine,
        replace(in_rows, tiling=search_tiling(selection, in_rows, finisher)),
        lambda attempt: tile(selection, attempt.tiling, finisher.session),
        place,
        lambda tiles, attempt: search_ahead(tiles, attempt, finisher),
    )
    tiles, attempt = fitting[-1]
    arrangement = Arrangement.of(tiles, attempt.tiling.arrays, attempt.ahead, finisher.order(placed))
    return Tuning(attempt.tiling, attempt.ahead), arrangement
