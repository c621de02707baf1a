"""Energy of switching is that of the edges that happen: hand-made gates, counted by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.activity import ALL, ActivityOf, evaluator
from tilewright.codesign.price.cell_timing import Pin, Timing
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.static_timing import Mapped

PIN = Pin(capacitance_pf=0.5, rise_pj=1.0, fall_pj=3.0)


def part(process: Process, cells: Mapping[str, Any]) -> ActivityOf:
    ports = {"a": {"direction": "input", "bits": [3]}, "b": {"direction": "input", "bits": [4]}}
    pins = {(cell.name, pin): PIN for cell in process.cells for pin in (*cell.inputs, *cell.outputs)}
    return ActivityOf(Mapped(ports, cells, {}), process, Timing((), pins), volts=2.0)


def cell(kind: str, inputs: dict[str, int], outputs: dict[str, int]) -> dict[str, Any]:
    return {
        "type": kind,
        "port_directions": {**dict.fromkeys(inputs, "input"), **dict.fromkeys(outputs, "output")},
        "connections": {pin: [net] for pin, net in {**inputs, **outputs}.items()},
    }


def test_an_edge_takes_the_energy_of_its_pins(toy: Process) -> None:
    inverter = part(toy, {"i": cell("inverter", {"A": 3}, {"Y": 5})})
    found = inverter.run(lambda cycle: {"a": [ALL * (cycle % 2)], "b": [0]}, 8)
    # Both nets switch in every cycle; each has a pin: (1 + 3) / 2 inside it, and 0.5 pF · (2 V)² / 2.
    assert (found.switching_pj, found.clock_pj) == (2 * (2.0 + 1.0), 0.0)
    assert inverter.run(lambda cycle: {"a": [0], "b": [0]}, 8).switching_pj == 0.0


def test_half_of_the_runs_take_half(toy: Process) -> None:
    inverter = part(toy, {"i": cell("inverter", {"A": 3}, {"Y": 5})})
    half = ALL >> 32
    assert inverter.run(lambda cycle: {"a": [half * (cycle % 2)], "b": [0]}, 8).switching_pj == 3.0


def test_a_register_takes_its_clock_and_follows_a_cycle_later(toy: Process) -> None:
    register = part(toy, {"r": cell("register", {"C": 2, "D": 3}, {"Q": 5})})
    still = register.run(lambda cycle: {"a": [0], "b": [0]}, 8)
    assert (still.clock_pj, still.switching_pj) == (1.0 + 3.0 + 0.5 * 4.0, 0.0)
    once = register.run(lambda cycle: {"a": [ALL * (cycle == 6)], "b": [0]}, 8)
    assert once.switching_pj == pytest.approx((2 + 1) * 3.0 / 6)  # up and down at D, up at Q before the end; 6 count


@pytest.mark.parametrize(
    ("function", "a", "b", "value"),
    [("!(A*B)", 1, 1, 0), ("!A*B", 1, 1, 0), ("!A*B", 0, 1, 1), ("(A+B)", 0, 1, 1), ("(A^B)", 1, 1, 0), ("1", 0, 0, 1)],
)
def test_understands_functions(function: str, a: int, b: int, value: int) -> None:
    assert evaluator(function, {"A": 7, "B": 8})({7: a * ALL, 8: b * ALL}) == value * ALL


@pytest.mark.parametrize("function", ["A'", "A*C", "__import__", "A;B"])
def test_what_is_no_function_of_the_pins_is_refused(function: str) -> None:
    with pytest.raises(PriceError):
        evaluator(function, {"A": 7, "B": 8})
