"""A machine's figures: units converted, the basis said, derived figures in one place."""

from __future__ import annotations

import pytest

from tilewright.codesign.points import priced
from tilewright.codesign.points.derived import derived
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.price.clock import Clock, UnitClock
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.target import Aim
from tilewright.isa.files.loader import load_machine

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


def test_figures_of_a_machine_that_aims_at_a_clock_are_those_of_its_macros_and_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, process = load_machine("tiny8"), load_process()
    small = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    plain = Price(machine, process, False, "", "", (), small, ())
    soon = tuple(memory_price(machine, memory, process, 3.5) for memory in machine.memories.values())
    asked: list[float] = []

    def aimed(price: Price, target_mhz: float) -> Aim:
        asked.append(target_mhz)
        return Aim(target_mhz, Clock((UnitClock("lanes", 4.0, "", "", ""),), ""), {}, {}, soon, 2e6, ())

    monkeypatch.setattr(priced, "price_machine", lambda *_, **__: plain)
    monkeypatch.setattr(priced, "aimed", aimed)
    found = priced.price_of(machine, process=process, target_mhz=250)
    assert asked == [250]
    assert (found.figures.logic_mm2, found.figures.clock_mhz, found.figures.clock_limit) == (2.0, 250, "lanes")
    assert found.price.memories == soon
    assert found.figures.memories_mm2 > priced.price_of(machine, with_clock=False).figures.memories_mm2


def test_round_trip_through_json() -> None:
    assert MachineFigures.from_json(MACHINE.as_json()) == MACHINE
