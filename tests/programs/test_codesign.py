"""The three stories of programs/codesign: their spaces are sound, and their commands work, here on small machines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from programs.networks.registry import NETWORKS, int8_network
from tests.programs.unpriced_worker import serve
from tests.tilewright.command_line import Command, make_command
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study

SPACES = ("arrays.yaml", "keyword.yaml", "softmax.yaml")

SMALL: dict[str, Any] = {
    "lanes": 2,
    "array": {"rows": 2, "cols": 2},
    "dram": {"bus_bytes": 4},
    "memories": {"act": {"kib": 32}, "wgt": {"kib": 8}, "acc": {"kib": 16}},
}
"""What each story's base machine gets in small."""

FEW: dict[str, dict[str, list[int]]] = {
    "arrays.yaml": {"array.rows": [2, 4], "memories.act.kib": [16]},
    "keyword.yaml": {"array.rows": [2, 4], "memories.acc.banks": [1]},
    "softmax.yaml": {},
}
"""The keys of each story in small."""


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    """The stories' files, to be changed."""
    return Path(shutil.copytree(repository / "programs/codesign", tmp_path / "codesign"))


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(capsys, monkeypatch)


@pytest.mark.parametrize("name", SPACES)
def test_each_space_is_sound_and_its_networks_can_be_built(name: str, folder: Path) -> None:
    networks = yaml.safe_load((folder / name).read_text())["networks"].values()
    assert {Path(each).stem for each in networks} <= NETWORKS.keys()
    for each in networks:
        (folder / each).write_bytes(b"")
    space = read_space(folder / name)
    assert any(space.points())


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_each_story_in_small(name: str, folder: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(running.run, "__defaults__", (*(running.run.__defaults__ or ())[:-1], serve))
    (folder / "ds-cnn.onnx").write_bytes(int8_network("ds-cnn").SerializeToString(deterministic=True))
    facts = yaml.safe_load((folder / name).read_text())
    (folder / "small.yaml").write_text(yaml.safe_dump({"extends": facts["base"], **SMALL}))
    small = {**facts, "base": "small.yaml", "networks": {"ds-cnn": "ds-cnn.onnx"}, "effort": 0}
    if FEW[name]:
        small["keys"] = FEW[name]
    (folder / name).write_text(yaml.safe_dump(small))
    ended = tilewright("explore", name, "-o", "study", "--workers", "1")
    assert ended.code == 0, ended.err
    study = Study("study")
    assert [entry.state for entry in study.entries] == ["measured"] * 2, [entry.reason for entry in study.entries]
    assert ended.out == tilewright("explore", "show", "study").out
    if name == "softmax.yaml":
        plain, without = study.entries
        assert plain.figures["host_nodes"] == 0 and without.figures["host_nodes"] == 1
        assert (plain.figures["area_mm2"] or 0) > (without.figures["area_mm2"] or 0)
