"""Places buffers again where engines often wait for a port: in banks that a run shows to be free.

`allocate` estimates when each operation starts, to tell who would want the same port in the same cycles. In a run they
start at other times, the more so the longer the program is. So the starts of a run say who met whom. With the addresses
that follow from that, other operations meet, though fewer: each run is the next one's estimate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.search.finisher import run_of
from tilewright.compiler.search.pace import pace
from tilewright.isa.program.state import RunCounters

OFTEN = 0.02
"""Engines often wait for ports if all of them do so for this share of the cycles."""

WORTH = 0.002
"""The least share of its cycles that a program must save for other addresses."""


def ports(ordered: OrderedTiles, runs: int) -> OrderedTiles:
    """The same operations in the same order, with the addresses of all that are tried that take the fewest cycles.

    So many `runs` are made after that of the program as it is, each with the addresses that follow from the one before.
    """
    if not runs:
        return ordered
    first = _run(ordered)
    if _port_cycles(first) < OFTEN * first.cycles:
        return ordered
    best, least = ordered, first.cycles * (1 - WORTH)
    for again, cycles in _again(ordered, first, runs):
        if cycles < least:
            best, least = again, cycles
    return best


def _again(ordered: OrderedTiles, run: RunCounters, runs: int) -> Iterator[tuple[OrderedTiles, int]]:
    """Other addresses and their cycles, until they do not fit or are those that they follow from."""
    for _ in range(runs):
        try:
            placed = allocate(ordered.tiles, run.started.astype(np.int64))
        except DoesNotFit:
            return
        if placed.placement.addresses == ordered.placement.addresses:
            return
        ordered = pace(waits(placed))
        run = _run(ordered)
        yield ordered, run.cycles


def _port_cycles(run: RunCounters) -> int:
    return sum(engine.stall["port"] for engine in run.engines.values())


def _run(ordered: OrderedTiles) -> RunCounters:
    return run_of(emit(ordered))
