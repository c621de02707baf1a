"""A price that is fitted follows the count of operators; what did not change costs what it did."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tilewright.codesign.price.estimate_error import worst_unit
from tilewright.codesign.price.fit import fitted
from tilewright.codesign.price.known import Logic
from tilewright.codesign.price.operators import Count
from tilewright.codesign.price.price import price_machine
from tilewright.codesign.price.sizes import of_other_sizes
from tilewright.codesign.price.synthesis import Cost
from tilewright.codesign.price.unit import FITTED
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

KNOWN = Logic(
    units=(),
    queues=(),
    costs={"queue": Cost(3300.0, 200), "wires": Cost(10.0, 0)},
    counts={"queue": Count(3000.0, 200, 1), "wires": Count(0.0, 0, 2)},
)


def test_costs_in_proportion_to_its_operators() -> None:
    assert fitted({"queue": Count(1500.0, 100, 3)}, KNOWN) == {"queue": Cost(1650.0, 100)}


def test_what_did_not_change_costs_what_it_did() -> None:
    assert fitted(KNOWN.counts, KNOWN) == KNOWN.costs


def test_what_was_not_there_costs_what_all_do_on_average() -> None:
    assert fitted({"new": Count(100.0, 7, 4)}, KNOWN) == {"new": Cost(pytest.approx(100 * 3310 / 3000), 7)}


def test_a_module_with_nothing_in_it_costs_nothing() -> None:
    empty = Logic((), (), {"queue": Cost(3300.0, 200)}, {"queue": Count(3000.0, 200, 1), "counters": Count(0.0, 0, 0)})
    assert fitted(empty.counts, empty) == {"queue": Cost(3300.0, 200), "counters": Cost()}


@pytest.mark.parametrize("key", ["array.rows", "memories.act.kib", "engines.vec.queue", "engines.load.beats"])
def test_sizes_are_fitted_to_the_machine_without_them(key: str) -> None:
    like = of_other_sizes("tiny8", [f"{key}=16"])
    assert like is not None
    assert like.text == load_machine("tiny8").text


@pytest.mark.parametrize(
    "settings", [[], ["lanes=4"], ["memories.act.banks=2"], ["memories.act.kib=16", "wait_bits=20"], ["counters=none"]]
)
def test_what_is_no_size_is_not_fitted(settings: list[str]) -> None:
    assert of_other_sizes("tiny8", settings) is None


def test_a_machine_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IsaError, match="none.yaml"):
        of_other_sizes("none.yaml", ["array.rows=4"])


@pytest.mark.slow
@pytest.mark.parametrize("setting", long_beyond(1, ["array.cols=4", "engines.vec.queue=5", "memories.act.kib=16"]))
def test_a_fit_is_near_the_estimate(setting: str) -> None:
    small = ("array.rows=2", "array.cols=2", "lanes=2", "memories.act.kib=4", "memories.wgt.kib=2")
    machine, like = load_machine("tiny8", (*small, setting)), load_machine("tiny8", small)
    fit, estimate = price_machine(machine, like=like), price_machine(machine)
    assert FITTED in {unit.basis for unit in fit.units}
    assert fit.logic_um2 == pytest.approx(estimate.logic_um2, rel=0.02)
    assert abs(worst_unit(fit, estimate)[1]) < 0.18  # docs/price.md: a sixth, at most
    assert fit.memories_um2 == estimate.memories_um2
