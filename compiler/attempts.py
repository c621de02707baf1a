"""Tries options that need less and less memory until a program fits its machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tilewright.compiler.emission.ahead import NOTHING_AHEAD, Ahead
from tilewright.compiler.errors import DoesNotFit, TooSmall
from tilewright.compiler.options import Options
from tilewright.compiler.remedy import larger_memory
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.machine.machine import Machine

Tiles = TypeVar("Tiles")
Placed = TypeVar("Placed")


LAYERS_IN_ORDER = 16
"""In so many layers at the most nothing moves past another; if a program does not fit then, nothing moves anywhere."""


def first_that_fits(
    machine: Machine,
    options: Options,
    tile: Callable[[Options], Tiles],
    place: Callable[[Tiles, Options], Placed],
    ahead: Callable[[Tiles, Options], Ahead] = lambda tiles, options: options.ahead,
) -> Placed:
    """What `place` gives with the wanted options or, if it raises DoesNotFit, with the first others that fit.

    The others keep nothing on chip, then cut smaller tiles as well; each first in the order that is wanted for the
    tiles. Raises TooSmall, with the figures of the attempt that came closest, when none of them fits.
    """
    refused: list[DoesNotFit] = []

    def noted(tiles: Tiles, attempt: Options) -> Placed:
        try:
            return place(tiles, attempt)
        except DoesNotFit as error:
            refused.append(error)
            raise

    for tiling in (options.tiling, *frugal(options.tiling)):
        attempt = replace(options, tiling=tiling)
        tiles = tile(attempt)
        with suppress(DoesNotFit):
            return first_order_that_fits(partial(noted, tiles), replace(attempt, ahead=ahead(tiles, attempt)))
    closest = min(refused, key=lambda error: error.needed - error.available)
    raise _too_small(closest, machine) from closest


def first_order_that_fits(place: Callable[[Options], Placed], options: Options) -> Placed:
    """What `place` gives with the wanted options or, if it raises DoesNotFit, with less that moves past another.

    First, everything keeps its order in the layer that does not fit, and in the next one that then does not; at last,
    no load comes earlier than its tile anywhere. Raises the last DoesNotFit.
    """
    attempt = options
    while attempt.ahead.loads != 0:
        try:
            return place(attempt)
        except DoesNotFit as error:
            if error.layer in attempt.in_order or len(attempt.in_order) == LAYERS_IN_ORDER:
                break
            attempt = replace(attempt, in_order=attempt.in_order | {error.layer})
    return place(replace(options, ahead=NOTHING_AHEAD))


def frugal(wanted: TilingOptions) -> tuple[TilingOptions, ...]:
    """Options that need less and less memory.

    First what a search has decided is forgotten, if it has; then nothing is kept on chip between layers; then tiles are
    half as large, too.
    """
    budget = wanted.budget_fraction
    plain = TilingOptions(budget, wanted.residency, arrays=wanted.arrays)
    nothing_kept = tuple(TilingOptions(each, residency="none", arrays=wanted.arrays) for each in (budget, budget / 2))
    return nothing_kept if plain == wanted else (plain, *nothing_kept)


def _too_small(error: DoesNotFit, machine: Machine) -> TooSmall:
    fact = f"{error.memory} needs {error.needed} words at the same time, {machine.name} has {error.available}"
    remedy = f"try --set {larger_memory(machine, error.memory, error.needed)}"
    return TooSmall(error.layer, fact, {error.memory: error.needed}, remedy)
