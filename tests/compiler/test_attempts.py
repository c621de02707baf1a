"""Attempts: the wanted options first, then less and less memory; the closest failure is told when nothing helps."""

from __future__ import annotations

import pytest

from tilewright.compiler.attempts import LAYERS_IN_ORDER, first_order_that_fits, first_that_fits
from tilewright.compiler.emission.ahead import NOTHING_AHEAD, Ahead
from tilewright.compiler.errors import DoesNotFit, TooSmall
from tilewright.compiler.options import Options
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.files.loader import load_machine

WANTED = Options(TilingOptions(budget_fraction=0.25), ahead=Ahead(3))
FRUGAL = TilingOptions(budget_fraction=0.25, residency="none")
SMALLER = TilingOptions(budget_fraction=0.125, residency="none")


def tried(fits: Options | None) -> tuple[list[TilingOptions], list[Options]]:
    """What is tiled with, and what is placed with, until the options fit."""
    tilings: list[TilingOptions] = []
    attempts: list[Options] = []

    def place(tiles: None, options: Options) -> None:
        attempts.append(options)
        if options != fits:
            # The second attempt comes closest.
            raise DoesNotFit("act", 90 if len(attempts) == 2 else 100, 80, f"layer{len(attempts)}")

    first_that_fits(load_machine("base16"), WANTED, lambda options: tilings.append(options.tiling), place)
    return tilings, attempts


def test_what_fits_at_once_is_as_wanted() -> None:
    assert tried(WANTED) == ([WANTED.tiling], [WANTED])


def test_needs_less_and_less_memory_and_tiles_once_for_each_tiling() -> None:
    tilings, attempts = tried(Options(SMALLER, NOTHING_AHEAD))
    assert tilings == [WANTED.tiling, FRUGAL, SMALLER]
    assert [attempt.tiling for attempt in attempts[:: LAYERS_IN_ORDER + 2]] == tilings
    assert [attempt.ahead.loads for attempt in attempts] == [*[3] * (LAYERS_IN_ORDER + 1), 0] * 3


def orders(*refused: str) -> list[Options]:
    """What is tried while the layers of `refused` do not fit, one after the other, until everything fits."""
    attempts: list[Options] = []

    def place(options: Options) -> None:
        attempts.append(options)
        if len(attempts) <= len(refused):
            raise DoesNotFit("act", 9, 8, refused[len(attempts) - 1])

    first_order_that_fits(place, WANTED)
    return attempts


def test_a_layer_that_does_not_fit_keeps_its_order_and_no_other_does() -> None:
    assert [attempt.in_order for attempt in orders("a", "b")] == [set(), {"a"}, {"a", "b"}]
    assert {attempt.ahead.loads for attempt in orders("a", "b")} == {3}


def test_what_does_not_fit_in_its_own_order_has_no_loads_ahead_anywhere() -> None:
    first, second, last = orders("a", "a")
    assert (first, second.in_order, second.ahead.loads) == (WANTED, {"a"}, 3)
    assert (last.in_order, last.ahead.loads) == (set(), 0)


def test_tells_the_figures_of_what_came_closest() -> None:
    with pytest.raises(TooSmall) as refused:
        tried(None)
    assert (refused.value.place, refused.value.fact) == (
        "layer2",
        "act needs 90 words at the same time, base16 has 80",
    )
    assert refused.value.words == {"act": 90}
