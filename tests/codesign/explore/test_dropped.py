"""Points that cannot be on the front are dropped, by the least cycles that they could take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tilewright.codesign.bounds.needs import Needs
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study


def test_points_that_cannot_be_on_the_front_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each 8 KiB more buy nothing once a point takes no more cycles than the bound of the larger ones."""
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32], engines.vec.queue: [4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, area_mm2]\n"
    )
    space = read_space(tmp_path / "space.yaml")
    monkeypatch.setattr(running, "needs_of", lambda network, weight: Needs(1, 1))
    monkeypatch.setattr(running, "least_cycles", lambda needs, machine: 100_000 // 16 - 4)
    run(space, tmp_path / "s", serve=serve)
    study = Study(tmp_path / "s")
    assert study.counts() == {"measured": 2, "dropped": 1}
    (dropped,) = [entry for entry in study.entries if entry.state == "dropped"]
    assert dropped.label == "memories.act.kib=32 engines.vec.queue=4"
    assert dropped.reason == "memories.act.kib=16 engines.vec.queue=4 is no worse even at 6,246 cycles"
