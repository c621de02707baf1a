"""Holds other engines back where a deep queue would let them start early and be in the way: more is not slower.

A queue that is full keeps back all that comes behind it in the program. A deeper one lets loads start earlier, and
these may take ports that what is in front of them needs more. Waits hold them back as a shorter queue would.

Example, a pace of 4 for `vec`: what comes behind its tenth instruction waits until six of them are complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.placed import OrderedTiles, Waits
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine

USUAL_DEPTH = 4
"""Machines with queues of this depth, and with less, need no pace: they are not measured."""


def pace(ordered: OrderedTiles) -> OrderedTiles:
    """The same program, with the waits of all that are tried with which it takes the fewest cycles."""
    best, least = ordered, None
    for engine, depth in _paces(ordered.tiles.machine):
        if least is None:
            least = _cycles(ordered)
        tried = replace(best, waits=paced(best.tiles, best.waits, engine, depth))
        cycles = _cycles(tried)
        if cycles < least:
            best, least = tried, cycles
    return best


def paced(tiles: TileProgram, waits: Waits, engine: Engine, depth: int) -> Waits:
    """The waits, and those that let no other engine be more than `depth` instructions of `engine` ahead of it."""
    found, before = [], 0
    for own, wait in zip(tiles.of_each(engines), waits, strict=True):
        least = before - depth
        is_held = own.name != engine.name and least > wait.get(engine.name, 0)
        found.append({**wait, engine.name: least} if is_held else wait)
        before += own.name == engine.name
    return tuple(found)


def _paces(machine: Machine) -> Iterator[tuple[Engine, int]]:
    """Each engine with a deep queue, and the depths to try: powers of two, so that machines try the same ones."""
    for engine in machine.engines.values():
        depth = USUAL_DEPTH
        while depth < engine.queue_depth:
            yield engine, depth
            depth *= 2


def _cycles(ordered: OrderedTiles) -> int:
    return exact_cycles(emit(ordered))
