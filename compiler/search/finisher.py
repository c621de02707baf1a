"""Makes the programs of tiles, and measures them: nothing is made again for an order of operations that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.options import Options
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.simulator.cycles import simulate_cycles

Schedule = Callable[[TileProgram, Options], TileProgram]
"""Puts operations in order; raises CompileError."""

Place = Callable[[TileProgram, Options], PlacedTiles]
"""Gives buffers their addresses; raises DoesNotFit."""

Emit = Callable[[PlacedTiles, Options], Program]
"""Makes the instructions; raises CompileError."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program, what it was made of, and its run."""

    scheduled: TileProgram
    placed: PlacedTiles
    program: Program
    counters: RunCounters


class Finisher:
    """Makes programs of tiles and runs them on the exact cycle model. It keeps the fastest.

    Options that move operations ahead in other ways often give them the same order, and with that the same program; and
    what a search finds best, others want again.
    """

    def __init__(self, schedule: Schedule, place: Place, emit: Emit) -> None:
        self._schedule, self._place, self._emit = schedule, place, emit
        self._fastest: Finished | None = None

    def alone(self) -> Finisher:
        """Another one, for programs that are not compared with those of this one."""
        return Finisher(self._schedule, self._place, self._emit)

    def finish(self, tiles: TileProgram, options: Options) -> Finished:
        """The program of tiles, and its run; raises CompileError if it does not fit."""
        scheduled, known = self._schedule(tiles, options), self._fastest
        if known is not None and scheduled == known.scheduled:
            return known
        placed = self._place(scheduled, options)
        program = self._emit(placed, options)
        made = Finished(scheduled, placed, program, _run(program))
        if known is None or made.counters.cycles < known.counters.cycles:
            self._fastest = made
        return made

    def place(self, tiles: TileProgram, options: Options) -> PlacedTiles:
        """Tiles in order, with addresses; raises DoesNotFit."""
        scheduled, known = self._schedule(tiles, options), self._fastest
        if known is not None and scheduled == known.scheduled:
            return known.placed
        return self._place(scheduled, options)

    def known(self, placed: PlacedTiles) -> Program | None:
        """The program of what `place` gave, if it was made before."""
        return self._fastest.program if self._fastest is not None and self._fastest.placed is placed else None


def exact_cycles(program: Program) -> int:
    """The cycles of a program, or of a part of one that begins on an idle machine."""
    return _run(program).cycles


def _run(program: Program) -> RunCounters:
    return simulate_cycles(program, place_regions(program.limits))
