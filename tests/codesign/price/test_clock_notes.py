"""A statement is noted only where it is what lowers the clock."""

from __future__ import annotations

import pytest

from tilewright.codesign.price import clock_notes as module
from tilewright.codesign.price.clock import Clock, UnitClock
from tilewright.codesign.price.process import Process
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize(
    ("ns", "notes"),
    [
        (4.0, ()),
        (
            10.0,
            (
                "a * b of scale takes 10.00 ns; the slowest other unit, load, takes 5.00: "
                "it lowers the clock from 200 to 100 MHz",
            ),
        ),
    ],
)
def test_what_is_slower_than_all_units_is_noted(
    ns: float, notes: tuple[str, ...], toy: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = (UnitClock("vec lanes", ns, "", "", "a * b of scale"), UnitClock("load", 5.0, "", "", ""))
    monkeypatch.setattr(module, "clock_of", lambda machine, process: Clock(units, ""))
    monkeypatch.setattr(module, "operator_paths", lambda machine, process: {"a + b of add": 1.0, "a * b of scale": ns})
    assert module.clock_notes(load_machine("tiny8"), toy) == notes
