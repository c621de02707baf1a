"""The picture of a front: what it shows, and that it is the same each time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import FakePool
from tests.tilewright.command_line import make_command
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.picture import front_picture
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    (folder / "one.onnx").write_bytes(b"")
    (folder / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32], engines.vec.queue: [2, 4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, kge]\n"
    )
    run(read_space(folder / "space.yaml"), folder / "s", make_pool=FakePool)
    return Study(folder / "s")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_has_the_front_and_the_same_bytes_each_time(study: Study, kind: str) -> None:
    picture = front_picture(study, study.objectives, kind)
    assert picture == front_picture(Study(study.folder), study.objectives, kind)
    if kind == "svg":
        assert b"#c8553d" in picture and b"#3c7dc4" in picture and b"<dc:date>" not in picture


def test_a_picture_needs_two_figures(study: Study) -> None:
    with pytest.raises(StudyError, match=r"a picture has two figures: name two with --objective$"):
        front_picture(study, ["cycles"], "svg")
    with pytest.raises(StudyError, match="no measured point has both cycles and ms: there is nothing to draw$"):
        front_picture(study, ["cycles", "ms"], "svg")


def test_says_how_to_install_what_it_needs(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # type: ignore[arg-type]
    ended = make_command(capsys, monkeypatch)("explore", "show", study.folder, "--svg", tmp_path / "front.svg")
    expected = (
        "error: --svg needs matplotlib, not installed here; install the extra: pip install 'tilewright[pictures]'\n"
    )
    assert (ended.code, ended.err) == (1, expected)
