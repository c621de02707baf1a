"""Makes the programs of tiles, and measures them: nothing is made again for an order of operations that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.options import Options
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.simulator.cycles import simulate_cycles


@dataclass(frozen=True, slots=True)
class FinishingPasses:
    """The passes from tiles to a program. All raise CompileError; `place` raises DoesNotFit.

    `settle` is for the last program alone, not for those that a search compares.
    """

    schedule: Callable[[TileProgram, Options], TileProgram]
    place: Callable[[TileProgram, Options], PlacedTiles]
    wait: Callable[[PlacedTiles], OrderedTiles]
    settle: Callable[[OrderedTiles, Options], OrderedTiles]
    emit: Callable[[OrderedTiles], Program]


@dataclass(frozen=True, slots=True)
class Finished:
    """A program, what it was made of, and its run."""

    scheduled: TileProgram
    placed: PlacedTiles
    ordered: OrderedTiles
    program: Program
    counters: RunCounters


class Finisher:
    """Makes programs of tiles and runs them on the exact cycle model. It keeps the fastest.

    Options that move operations ahead in other ways often give them the same order, and with that the same program; and
    what a search finds best, others want again.
    """

    def __init__(self, steps: FinishingPasses, session: Session | None = None) -> None:
        """`session`: what was found of the network, which those who search with it may ask."""
        self.session = session or Session()
        self._steps = steps
        self._fastest: Finished | None = None
        self._alike: Arrangement | None = None
        self._ordered: OrderedTiles | None = None  # what was made last
        self._made: tuple[OrderedTiles, Program] | None = None  # what `program` was asked for last

    def alone(self) -> Finisher:
        """Another one, for programs that are not compared with those of this one."""
        return Finisher(self._steps, self.session)

    def follow(self, alike: Arrangement | None) -> None:
        """Place tiles as others were, where they have the same outline."""
        self._alike = alike

    def finish(self, tiles: TileProgram, options: Options) -> Finished:
        """The program of tiles, and its run; raises CompileError if it does not fit."""
        scheduled, known = self._steps.schedule(tiles, options), self._fastest
        if known is not None and scheduled == known.scheduled:
            return known
        placed = self._steps.place(scheduled, options)
        ordered = self._steps.wait(placed)
        program = self._steps.emit(ordered)
        made = Finished(scheduled, placed, ordered, program, run_of(program))
        if known is None or made.counters.cycles < known.counters.cycles:
            self._fastest = made
        return made

    def place(self, tiles: TileProgram, options: Options) -> PlacedTiles:
        """Tiles in order, with addresses; raises DoesNotFit."""
        if self._alike is not None and not options.in_order:
            self._ordered = self._alike.of_alike(tiles, options.tiling.arrays, options.ahead)
            if self._ordered is not None:
                return PlacedTiles(self._ordered.tiles, self._ordered.placement)
        scheduled, known = self._steps.schedule(tiles, options), self._fastest
        if known is not None and scheduled == known.scheduled:
            return known.placed
        return self._steps.place(scheduled, options)

    def order(self, placed: PlacedTiles) -> OrderedTiles:
        """What `place` gave, with waits."""
        if self._fastest is not None and self._fastest.placed is placed:
            return self._fastest.ordered
        if self._ordered is None or self._ordered.tiles is not placed.tiles:
            self._ordered = self._steps.wait(placed)
        return self._ordered

    def settled_cycles(self, made: Finished, options: Options) -> int:
        """The exact cycles of a program when it is settled."""
        settled = self._steps.settle(made.ordered, options)
        return made.counters.cycles if settled is made.ordered else exact_cycles(self._steps.emit(settled))

    def program(self, placed: PlacedTiles, options: Options) -> Program:
        """The program of what `place` gave, settled: not made again if a search has made it."""
        ordered = self.order(placed)
        if self._made is None or self._made[0] is not ordered:
            settled = self._steps.settle(ordered, options)
            is_known = self._fastest is not None and self._fastest.ordered is settled
            program = self._fastest.program if self._fastest and is_known else self._steps.emit(settled)
            self._made = ordered, program
        return self._made[1]


def exact_cycles(program: Program) -> int:
    """The cycles of a program, or of a part of one that begins on an idle machine."""
    return run_of(program).cycles


def run_of(program: Program) -> RunCounters:
    """What the exact cycle model says of a program, or of a part of one that begins on an idle machine."""
    return simulate_cycles(program, place_regions(program.limits))
