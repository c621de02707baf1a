"""A machine's figures: units converted, the basis said, derived figures in one place."""

from __future__ import annotations

import pytest

from tilewright.codesign.points.derived import derived
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.priced import MachineFigures

MACHINE = MachineFigures("m", "key", "p", 1.5, 0.5, 200.0, 1000, "estimated", None, 4.0, "array")
NETWORK = NetworkFigures("n", "h", "m", "key", 1, 500_000, 10, 0.5, 100, 0.25, 0.75, 0, 9, 90, 0.1)


def test_derived_figures() -> None:
    found = derived(NETWORK, MACHINE)

    assert MACHINE.clock_mhz == 250
    assert found.ms == pytest.approx(2.0)  # 500,000 × 4 ns
    assert found.inferences_per_second == pytest.approx(500)
    assert found.mj == pytest.approx(1.0)
    assert found.energy_delay == pytest.approx(2.0)
    assert found.area_mm2 == pytest.approx(2.0)


def test_what_is_not_known_stays_unknown() -> None:
    assert derived(NETWORK, None).ms is None
    without_clock = MachineFigures.from_json({**MACHINE.as_json(), "clock_ns": None})
    assert (derived(NETWORK, without_clock).ms, derived(NETWORK, without_clock).mj) == (None, 1.0)


def test_round_trip_through_json() -> None:
    assert MachineFigures.from_json(MACHINE.as_json()) == MACHINE
