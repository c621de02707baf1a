"""The exact area of a point is that of the hardware that the study has figures of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Entry
from tilewright.codesign.points import priced
from tilewright.codesign.price.clock import Clock, UnitClock
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.target import Aim
from tilewright.codesign.verify.area import verify_area
from tilewright.isa.machine.machine import Machine


def test_of_a_point_that_aims_at_a_clock_it_is_mapped_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped for area, the logic of this machine takes nothing; for its clock, 2 mm²."""
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\ntargets: [250]\nconstraints: [logic_mm2 <= 1.5]\nnetworks: {one: one.onnx}\n"
        "objectives: [cycles]\n"
    )
    space = read_space(tmp_path / "space.yaml")
    point = (250,)

    def price_machine(machine: Machine, exact: bool) -> Price:
        assert exact
        return Price(machine, load_process(), exact, "", "", (), (), ())

    def aimed(price: Price, target_mhz: float) -> Aim:
        return Aim(target_mhz, Clock((UnitClock("lanes", 4.0, "", "", ""),), ""), {}, {}, (), 2e6, ())

    monkeypatch.setattr(priced, "price_machine", price_machine)
    monkeypatch.setattr(priced, "aimed", aimed)
    entry = Entry("target_mhz=250", point, "done", "", {"logic_mm2": 1.0}, {})
    found = verify_area(space, point, entry, space.machine(point))
    assert found.fails
    assert found.text == "2 mm² of logic, 100.0 % above the study's figure: `logic_mm2 <= 1.5` is not met"
