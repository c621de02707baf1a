"""Measures tiles for a search: makes their program, runs it on the exact cycle model, and takes that off the budget."""

from __future__ import annotations

from collections import Counter

from tilewright.compiler.attempts import first_order_that_fits
from tilewright.compiler.emission.dependences import durations
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.search.effort import Budget
from tilewright.compiler.search.finisher import Finished, Finisher
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.machine.engine import Engine


def cycles_of(tiles: TileProgram, options: Options, work: Budget, finisher: Finisher) -> int | None:
    """The exact cycles of tiles; None if they do not fit in any order."""
    made = measured(tiles, options, work, finisher)
    return None if made is None else made.counters.cycles


def measured(tiles: TileProgram, options: Options, work: Budget, finisher: Finisher) -> Finished | None:
    """The program of tiles and its run; None if they do not fit in any order."""

    def finish(attempt: Options) -> Finished:
        try:
            return finisher.finish(tiles, attempt)
        except CompileError:
            work.spend(len(tiles.operations) // 3, 0)  # it was scheduled, and not emitted
            raise

    try:
        made = first_order_that_fits(finish, options)
    except CompileError:
        return None
    work.spend(len(made.program.instructions), made.counters.cycles)  # as much if it was known, for the same result
    return made


def least_cycles(tiles: TileProgram) -> int:
    """The cycles of the engine that has most to do, whatever the order."""
    busy: Counter[Engine] = Counter()
    for operation, duration in zip(tiles.operations, tiles.of_each(durations), strict=True):
        busy[tiles.machine.format(operation.mnemonic).engine] += duration.busy
    return max(busy.values(), default=0)
