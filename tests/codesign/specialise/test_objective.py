"""What an objective makes of trials whose cycles, energies, areas and clocks are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codesign.advise.test_advice import network
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise.goal import SavedQuantity
from tilewright.codesign.specialise.objective import NoFigure, Objective


def trial(cycles: tuple[int, int], mj: float = 1.0, mm2: float = 10.0, ns: float | None = 5.0) -> Trial:
    figures = MachineFigures("m", "k", "P", mm2, 0.0, 100.0, 1, "fitted", "m", ns)
    outcomes = [
        replace(network(count), network=name, on_chip_mj=mj, dram_mj=0.0)
        for name, count in zip(("long", "short"), cycles, strict=True)
    ]
    return Trial(None, figures, tuple(outcomes), {})


BASE = trial((1000, 100))


@pytest.mark.parametrize(
    ("goal", "after", "left"),
    [
        (SavedQuantity.CYCLES, trial((500, 50), mj=3.0, mm2=30.0, ns=9.0), 0.5),
        (
            SavedQuantity.CYCLES,
            trial((1000, 25)),
            0.5,
        ),  # a quarter of one and all of the other: by the geometric mean, half
        (SavedQuantity.TIME, trial((500, 50), ns=7.5), 0.75),  # half the cycles at two thirds of the clock
        (SavedQuantity.ENERGY, trial((500, 50), mj=0.8), 0.8),
        (SavedQuantity.ENERGY_DELAY, trial((500, 50), mj=0.8, ns=7.5), 0.6),
        (SavedQuantity.AREA, trial((500, 50), mm2=12.0), 0.6),
    ],
)
def test_what_is_left_of_the_objective(goal: SavedQuantity, after: Trial, left: float) -> None:
    assert Objective(goal).saved(BASE, after) == pytest.approx(1 - left)


def test_weights_make_sums() -> None:
    """1,000 + 10 · 100 cycles become 1,000 + 10 · 50."""
    assert Objective(SavedQuantity.CYCLES, {"short": 10.0}).saved(BASE, trial((1000, 50))) == pytest.approx(0.25)


def test_a_slower_clock_may_cost_more_than_the_cycles_gain() -> None:
    assert Objective(SavedQuantity.TIME).saved(BASE, trial((900, 90), ns=6.0)) < 0


@pytest.mark.parametrize("goal", [SavedQuantity.TIME, SavedQuantity.ENERGY_DELAY])
def test_without_a_clock_there_is_no_time(goal: SavedQuantity) -> None:
    with pytest.raises(NoFigure, match="the clock is not known"):
        Objective(goal).saved(BASE, trial((500, 50), ns=None))


def test_without_an_energy_the_network_is_named() -> None:
    unknown = replace(BASE, outcomes=tuple(replace(of, on_chip_mj=None, unmeasured=("act",)) for of in BASE.outcomes))
    with pytest.raises(NoFigure, match="the energy of long is not known: the process has no figure for act"):
        Objective(SavedQuantity.ENERGY).saved(unknown, unknown)
