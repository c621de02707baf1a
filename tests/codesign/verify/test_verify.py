"""The exact area of a point is that of the hardware that the study has figures of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Entry, Study
from tilewright.codesign.points import priced
from tilewright.codesign.price.clock import Clock, UnitClock
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.target import Aim
from tilewright.codesign.verify.verdict import BOUND, holds
from tilewright.codesign.verify.verify import TRIED, some_dropped, verify, verify_area
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


DIGITS = Path("programs/digits/digits_int8.onnx").resolve()


def study_with_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> tuple[Space, Path]:
    """Points of invented figures; of those with more memory than the first, no program is said to go below `least`."""
    (folder / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32, 64, 128, 256], engines.vec.queue: [4]}\n"
        f"networks: {{one: {DIGITS}}}\nobjectives: [cycles, area_mm2]\neffort: 0\n"
    )
    space = read_space(folder / "space.yaml")
    with monkeypatch.context() as patch:
        patch.setattr(running, "least_cycles", lambda needs, machine: least)
        run(space, folder / "s", serve=serve)
    return space, folder / "s"


@pytest.mark.parametrize(("least", "does_hold"), [(5_000, True), (50_000, False)])
def test_a_point_is_compiled_against_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, does_hold: bool
) -> None:
    """The digits take some 6,700 cycles."""
    monkeypatch.setattr(running, "dominates", lambda own, best: True)  # whatever its figures are
    space, folder = study_with_dropped(tmp_path, monkeypatch, least)
    dropped = some_dropped(Study(folder))
    assert len(dropped) == TRIED
    label = dropped[0].label
    [found] = verify(folder, space, [label], [BOUND], lambda *_: holds(""))
    assert found.verdict.fails == (not does_hold)
    assert found.verdict.text.endswith(f" cycles, dropped for {least:,} at best")
    with pytest.raises(StudyError, match="has no figures to verify: it is dropped"):
        next(iter(verify(folder, space, [label], ["bits"], lambda *_: holds(""))))
