"""What is made of tiles once, and what it is worth keeping for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tests.digits import MODEL
from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, NOTHING_AHEAD, Ahead
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, finished, finisher_for
from tilewright.compiler.search.effort import CYCLES_PER_UNIT, Budget
from tilewright.compiler.search.finisher import Finisher, FinishingPasses, exact_cycles
from tilewright.compiler.search.measure import measured
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.binary.elf_writer import to_bytes

SOON, LATE = Options(ahead=EVERYTHING_AHEAD), Options(ahead=NOTHING_AHEAD)


def two_layers(seed: int = 0, size: int = 24) -> TileProgram:
    of = machine("base16")
    network = network_for(of, seed)
    first = network.conv(network.input(1, 16, size, size), 32, (3, 3), pad=1)
    return tile(select(network.program(network.conv(first, 16, (1, 1))), of))


def counting(tiles: TileProgram) -> tuple[Finisher, Counter[str]]:
    """A finisher, and how often it ran each of its passes."""
    known, ran = finisher_for(tiles.machine), Counter[str]()

    def counted(name: str) -> Any:
        run = getattr(known._steps, name)

        def once_more(*arguments: Any) -> Any:
            ran[name] += 1
            return run(*arguments)

        return once_more

    return Finisher(FinishingPasses(*map(counted, ("schedule", "place", "wait", "settle", "emit")))), ran


def test_the_same_order_is_made_once_whatever_the_options() -> None:
    finisher, ran = counting(two_layers())
    first = finisher.finish(two_layers(), SOON)
    assert finisher.finish(two_layers(), Options(ahead=Ahead(10_000))) is first  # no more loads than that
    assert finisher.place(two_layers(), SOON) is first.placed
    assert finisher.order(first.placed) is first.ordered
    assert finisher.program(first.placed, SOON) is first.program
    assert ran == {"schedule": 3, "place": 1, "wait": 1, "settle": 1, "emit": 1}


def test_what_it_makes_is_what_the_passes_make() -> None:
    tiles = two_layers()
    made, program = finisher_for(tiles.machine).finish(tiles, SOON), finished(tiles, SOON, tiles.machine)
    assert to_bytes(made.program) == to_bytes(program)
    assert made.counters.cycles == exact_cycles(program)


@pytest.mark.parametrize("orders", [(SOON, LATE), (LATE, SOON)])
def test_another_order_is_made_and_the_fastest_is_kept(orders: tuple[Options, Options]) -> None:
    finisher, ran = counting(two_layers(size=10))
    made = [(finisher.finish(two_layers(size=10), options), options) for options in orders]
    (fast, soon), (slow, late) = sorted(made, key=lambda each: each[0].counters.cycles)
    assert fast.counters.cycles < slow.counters.cycles
    assert finisher.finish(two_layers(size=10), soon) is fast
    assert finisher.finish(two_layers(size=10), late) is not slow  # forgotten
    assert finisher.finish(two_layers(size=10), soon) is fast
    assert ran["emit"] == 3
    assert finisher.program(slow.placed, SOON) is not slow.program
    assert finisher.place(two_layers(size=10), late) is not fast.placed


def test_another_finisher_knows_nothing_of_it() -> None:
    finisher, ran = counting(two_layers())
    finisher.finish(two_layers(), SOON)
    finisher.alone().finish(two_layers(), SOON)
    assert ran["emit"] == 2


def test_a_search_pays_as_much_for_what_is_known() -> None:
    finisher, ran = counting(two_layers())
    for _ in range(2):
        work = Budget(10_000)
        made = measured(two_layers(), SOON, work, finisher)
        assert made is not None
        assert 10_000 - work.left == len(made.program.instructions) + made.counters.cycles // CYCLES_PER_UNIT
    assert ran["emit"] == 1


def test_what_is_placed_waits_and_is_emitted_once() -> None:
    finisher, ran = counting(two_layers())
    placed = finisher.place(two_layers(), SOON)
    waits = finisher.order(placed)
    assert finisher.order(placed) is waits
    assert to_bytes(finisher.program(placed, SOON)) == to_bytes(finished(two_layers(), SOON, two_layers().machine))
    assert ran == {"schedule": 1, "place": 1, "wait": 1, "settle": 1, "emit": 1}
    later = finisher.place(two_layers(), LATE)
    assert finisher.order(later).tiles is later.tiles


def test_tiles_of_the_same_outline_follow_an_arrangement() -> None:
    """Unless some of their layers keep their order; tiles of another outline go their own way."""
    finisher, ran = counting(two_layers())
    first = finisher.finish(two_layers(), SOON)
    other, ran_for_other = counting(two_layers(seed=1))
    other.follow(Arrangement.of(two_layers(), None, SOON.ahead, first.ordered))
    placed = other.place(two_layers(seed=1), SOON)
    assert to_bytes(other.program(placed, SOON)) == to_bytes(finished(two_layers(seed=1), SOON, two_layers().machine))
    assert ran_for_other == {"settle": 1, "emit": 1}
    other.place(two_layers(seed=1), replace(SOON, in_order=frozenset({"conv0"})))
    other.place(two_layers(size=20), SOON)
    assert ran_for_other == {"settle": 1, "emit": 1, "schedule": 2, "place": 2}


def test_a_compilation_takes_the_order_that_its_search_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The search has seen other weights and names, which change neither the order nor the addresses."""
    found: list[bool] = []
    of_alike = Arrangement.of_alike

    def noted(self: Arrangement, tiles: TileProgram, arrays: int | None, ahead: Ahead) -> Any:
        ordered = of_alike(self, tiles, arrays, ahead)
        found.append(ordered is not None)
        return ordered

    monkeypatch.setattr(Arrangement, "of_alike", noted)
    kept: list[str] = []
    keeps = [None, lambda name, _: kept.append(name)]
    model, of = onnx.load(MODEL), machine("base16")
    searched, shown = (
        compile_model(model, of, Options(effort=1, tuning=tmp_path / f"{number}.json"), keep=keep)
        for number, keep in enumerate(keeps)
    )
    assert found == [True]  # whoever wants the results of all passes gets them
    assert {"tile", "schedule", "allocate", "waits", "emit"} <= set(kept)
    assert to_bytes(searched) == to_bytes(shown)
