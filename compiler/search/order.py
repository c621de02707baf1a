"""How far operations may move ahead of their turn, and which engines work, so that cycles are fewest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Ahead, Mix
from tilewright.compiler.emission.divide import groups
from tilewright.compiler.options import Options
from tilewright.compiler.search.effort import CYCLES_PER_INSTRUCTION, EFFORTS, order_budget
from tilewright.compiler.search.finisher import Finisher
from tilewright.compiler.search.measure import cycles_of
from tilewright.compiler.tile.program import TileProgram

AHEAD = (
    EVERYTHING_AHEAD, Ahead(eighths=6), Ahead(5), Ahead(3), Ahead(2), Ahead(eighths=5), Ahead(eighths=7), Ahead(6),
    Ahead(1),
)  # fmt: skip
"""How far operations may move ahead: in the order in which it is tried."""


def search_ahead(tiles: TileProgram, options: Options, finisher: Finisher) -> Ahead:
    """How far operations may move ahead so that tiles take the fewest cycles; the options' own if that is set.

    It follows from the tiles and the effort alone.
    """
    expected = len(tiles.operations) * CYCLES_PER_INSTRUCTION
    work = order_budget(EFFORTS[options.effort], expected)
    if options.ahead != EVERYTHING_AHEAD or not work.allows(3 * expected):
        return options.ahead
    found: dict[Ahead, int] = {}

    def best_of(tried: Iterable[Ahead]) -> Ahead:
        for ahead in tried:
            if not work.allows(expected):
                break
            cycles = cycles_of(tiles, replace(options, ahead=ahead), work, finisher)
            if cycles is not None:
                found[ahead] = cycles
        return min(found, key=found.__getitem__, default=options.ahead)

    best = best_of(replace(EVERYTHING_AHEAD, mix=mix) for mix in Mix)
    for fewer in _idle_engines(tiles):
        best = best_of(replace(best, idle=best.idle | idle) for idle in fewer)
    ways = sorted(Mix, key=lambda mix: mix is not best.mix)  # the best first, the others in their order
    return best_of(replace(ahead, mix=mix, idle=best.idle) for mix in ways for ahead in AHEAD[1:])


def _idle_engines(tiles: TileProgram) -> Iterator[Sequence[frozenset[str]]]:
    """For each group of engines that share work, the sets of those that may be idle: the last, the last two, …"""
    for names in groups(tiles):
        yield [frozenset(names[at:]) for at in range(len(names) - 1, 0, -1)]
