"""Decides the options of a program: recalled if an earlier search found them, searched for otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.errors import FatalError
from tilewright.compiler.levels import Form
from tilewright.compiler.options import Options
from tilewright.compiler.search.alike import Alike, Found, look_of
from tilewright.compiler.search.finisher import Finisher
from tilewright.compiler.search.search import search_ahead, search_tiling
from tilewright.compiler.search.tuning import Tuning, recall, remember, tuning_key
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.errors import short
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True)
class Decision:
    """The options to tile with; `key`: under what to remember those with which the program fits, empty if not at all.

    `is_final`: how far operations may move ahead is decided, too. `note` is told what was found for a selection;
    `arrangement` is that of the program of another one that looks alike.
    """

    options: Options
    key: str
    is_final: bool
    note: Callable[[Found], None] | None = None
    arrangement: Arrangement | None = None

    def ahead(self, tiles: Form, options: Options, finisher: Finisher) -> Ahead:
        """How far operations may move ahead in tiles."""
        if self.is_final or not isinstance(tiles, TileProgram):
            return options.ahead
        return search_ahead(tiles, options, finisher)

    def remember(self, fitting: Options, arrangement: Callable[[], Arrangement | None]) -> None:
        """Keep the options with which the program fits, and how it is arranged."""
        tuning = Tuning(fitting.tiling, fitting.ahead)
        if self.note is not None:
            self.note(Found(tuning, arrangement))
        if self.key:
            remember(self.key, tuning, fitting.tuning)


def decide(value: Form, is_scheduled: bool, options: Options, finisher: Finisher, alike: Alike) -> Decision:
    """The options for what is to be tiled; for tiles, and what comes after them, the options as they are.

    What `alike` has of another part of the network comes before what was kept of this one, so that the decision does
    not depend on what is kept. Raises CompileError if a search would be needed and the options forbid it.
    """
    if options.effort == 0 or is_scheduled:
        return Decision(options, "", is_final=True)
    if not isinstance(value, Selection):
        return Decision(options, "", is_final=False)
    look = cache(partial(look_of, value, options))
    note = partial(alike.remember, look)
    other = alike.recall(look)
    if other is not None:
        return Decision(_with(other.tuning, options), "", is_final=True, note=note, arrangement=other.arrangement())
    key = tuning_key(value, options)
    known = recall(key, options.tuning)
    if known is not None:
        _require_of_machine(known, value.machine, options)
        return Decision(_with(known, options), "", is_final=True, note=note)
    if options.fails_on_miss:
        place = "the user's cache" if options.tuning is None else str(options.tuning)
        raise FatalError(
            value.program.name,
            f"{place} has no tuning for this network, machine, effort and version of the compiler",
            remedy="compile once without --fail-on-miss",
        )
    return Decision(replace(options, tiling=search_tiling(value, options, finisher)), key, is_final=False, note=note)


def _require_of_machine(tuning: Tuning, machine: Machine, options: Options) -> None:
    """Raises CompileError for a tuning that plans with memories which the machine does not have."""
    unknown = sorted(tuning.tiling.limits.keys() - machine.memories.keys())
    if unknown:
        place = "the user's cache" if options.tuning is None else str(options.tuning)
        raise FatalError(
            place,
            f"has a tuning with limits of {short(unknown[0])}, which is no memory of {machine.name}",
            remedy="delete the file; it is made again",
        )


def _with(tuning: Tuning, options: Options) -> Options:
    return replace(options, tiling=tuning.tiling, ahead=tuning.ahead)
