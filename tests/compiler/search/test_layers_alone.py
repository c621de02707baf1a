"""The tilings of layers, each alone: which are measured, which are left out, and what the network is offered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.nests import network_for
from tests.compiler.search.test_search import two_convolutions
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import finished, finisher_for
from tilewright.compiler.search import layers_alone, search
from tilewright.compiler.search.changes import Anew
from tilewright.compiler.search.effort import Budget
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.search.layers_alone import OFFERED, LayersAlone, best_first
from tilewright.compiler.search.search import search_tiling
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.choice import Candidates, TileChoice
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.files.loader import load_machine

PLENTY = Budget(10**9)


def candidates() -> Candidates:
    selection = two_convolutions()
    planner = Planner(selection, TilingOptions())
    return planner.alone().candidates(0, planner.plan().residency)


def noting(measured: list[TileChoice], cycles: Callable[[TileChoice], int]) -> Callable[[TileChoice], int]:
    def measure(choice: TileChoice) -> int:
        measured.append(choice)
        return cycles(choice)

    return measure


def test_what_the_model_finds_best_is_measured_first_and_the_exact_model_decides() -> None:
    found, measured = candidates(), list[TileChoice]()
    best = best_first(found, np.zeros(len(found.cycles)), noting(measured, lambda choice: 10**6 - choice.cycles))
    expected = [choice.cycles for choice in measured]
    assert expected == sorted(expected)
    assert [choice.cycles for choice in best] == sorted(expected, reverse=True)


def test_what_takes_no_less_than_the_best_is_not_measured() -> None:
    found, measured = candidates(), list[TileChoice]()
    order = found.cheapest_first()
    least = np.zeros(len(found.cycles))
    least[order[1:4]] = [50, 51, 49]
    best_first(found, least, noting(measured, lambda choice: 50))
    left = [found.choice(int(at)) for at in (order[0], *order[3 : layers_alone.MOST_MEASURED + 2])]
    assert measured == left


def test_no_more_are_measured_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_alone, "MOST_MEASURED", 3)
    measured: list[TileChoice] = []
    found = candidates()
    best_first(found, np.zeros(len(found.cycles)), noting(measured, lambda choice: 1))
    assert len(measured) == 3


def test_layers_that_are_alike_are_measured_once_and_changed_together() -> None:
    selection, measured = two_convolutions(), list[str]()
    planner = Planner(selection, TilingOptions())

    def measure(tiles: TileProgram, work: Budget) -> int:
        measured.append(tiles.layers[tiles.operations[0].layer].name)
        return 10**6 - len(measured)

    layers = LayersAlone(selection, planner, measure, PLENTY)
    plan = planner.plan()
    alike = [[selection.covers[at].nest.name for at in positions] for positions in planner.alike(plan.residency)]
    cuts = list(layers.cuts(TilingOptions(), plan))
    assert set(measured) == {names[0] for names in alike}
    assert [list(cut.tiles) for _, cut in cuts] == [names for names in alike for _ in range(OFFERED)]
    count = len(measured)
    assert list(layers.cuts(TilingOptions(), plan)) == cuts
    assert len(measured) == count


def test_nothing_is_measured_without_work() -> None:
    selection = two_convolutions()
    planner = Planner(selection, TilingOptions())
    layers = LayersAlone(selection, planner, lambda tiles, work: pytest.fail("measured"), Budget(0))
    assert not list(layers.cuts(TilingOptions(), planner.plan()))


def test_all_layers_get_their_best_tiles_at_once_and_nothing_else_stays() -> None:
    selection = two_convolutions()
    layers = LayersAlone(selection, Planner(selection, TilingOptions()), lambda tiles, work: 1, PLENTY)
    before = TilingOptions(limits={"acc": 64}, off_chip=frozenset({"conv0"}), tiles={"conv1": TileSizes({}, False)})
    on_chip, off_chip = layers.anew(before)
    assert (on_chip.off_chip, off_chip.off_chip) == (frozenset(), {"in0"})
    assert on_chip.tiles.keys() == {"conv0", "conv1", "conv2"}
    assert on_chip.apply(before) == TilingOptions(tiles=on_chip.tiles)
    assert Anew(frozenset({"x"}), {}).apply(before) == TilingOptions(off_chip=frozenset({"x"}))


def test_a_layer_may_take_its_share_of_the_work() -> None:
    """Of the cycles of all kinds of layers: two of the three convolutions are alike."""
    selection, allowed = two_convolutions(), dict[str, int]()

    def measure(tiles: TileProgram, work: Budget) -> int:
        allowed.setdefault(tiles.layers[tiles.operations[0].layer].name, work.left)
        return 1

    planner = Planner(selection, TilingOptions())
    plan = planner.plan()
    list(LayersAlone(selection, planner, measure, Budget(10**6)).cuts(TilingOptions(), plan))
    kinds = {name: plan.choices[at].cycles for at, name in ((0, "conv0"), (2, "conv2"))}
    assert allowed == {name: 10**6 * cycles // sum(kinds.values()) for name, cycles in kinds.items()}


def small_layer() -> Selection:
    of = load_machine("tiny8")
    network = network_for(of, 0)
    return select(network.program(network.conv(network.input(1, 8, 8, 8), 16, (3, 3), stride=2, pad=1)), of)


def test_more_effort_finds_the_best_of_all_tilings_of_a_layer() -> None:
    """Every tiling of the layer is measured here, with its input on chip and not."""
    selection, cycles = small_layer(), list[int]()
    for residency in ("auto", "none"):
        planner = Planner(selection, TilingOptions(residency=residency))
        found = planner.candidates(0, planner.plan().residency)
        for at in np.flatnonzero(found.is_possible):
            tiles = {selection.covers[0].nest.name: found.choice(int(at)).as_wanted}
            cycles.append(exact(selection, TilingOptions(residency=residency, tiles=tiles)))
    searched = search_tiling(selection, Options(effort=2), finisher_for(selection.machine))
    assert exact(selection, searched) <= min(cycles)


def exact(selection: Selection, tiling: TilingOptions) -> int:
    return exact_cycles(finished(tile(selection, tiling), Options(effort=0), selection.machine))


def test_less_effort_measures_no_layer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LayersAlone", lambda *_: pytest.fail("made"))
    selection = small_layer()
    search_tiling(selection, Options(effort=1), finisher_for(selection.machine))
