"""Profiles of a study's points: of its own machine and network, and beside its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import FakePool
from tests.digits import MODEL
from tests.tilewright.command_line import Command, make_command
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study
from tilewright.studies.profiles import file_name, files_beside

LABEL = "memories.act.kib=16 engines.vec.queue=4"


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(capsys, monkeypatch)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Of two points, one of which beats the other."""
    (tmp_path / "net.onnx").write_bytes(MODEL.read_bytes())
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [16], engines.vec.queue: [2, 4]}\n"
        "networks: {digits: net.onnx}\nobjectives: [cycles]\neffort: 0\n"
    )
    run(read_space(tmp_path / "space.yaml"), tmp_path / "s", make_pool=FakePool)
    return tmp_path / "s"


@pytest.mark.slow
def test_is_compiled_again_and_says_where_figures_differ(tilewright: Command, study: Path) -> None:
    ended = tilewright("explore", "profile", study, "engines.vec.queue=4 memories.act.kib=16", "--json", "-")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["isa"] == "tiny8[memories.act.kib=16][engines.vec.queue=4]"
    assert ended.err == "The study has 6,246 cycles, by another version.\n"  # of arithmetic, here


@pytest.mark.slow
def test_those_of_the_front_lie_beside_the_page_which_links_them(tilewright: Command, study: Path) -> None:
    html = study.parent / "study.html"
    assert tilewright("explore", "show", study, "--html", html, "--profiles").code == 0
    [(place, address)] = files_beside(html, Study(study)).items()
    assert place == (LABEL, "digits") and address in html.read_text()
    assert f"<h1>digits on tiny8[{LABEL.replace(' ', '][')}]</h1>" in (html.parent / address).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((LABEL.replace("16", "8"),), f"no point '{LABEL.replace('16', '8')}' (did you mean '{LABEL}'?);"),
        ((LABEL, "--network", "digit"), "no network 'digit' (did you mean 'digits'?); --network takes one of: digits"),
        ((LABEL,), "net.onnx: is not the network of the study any more; run the study again"),
    ],
)
def test_refuses(tilewright: Command, study: Path, words: tuple[str, ...], message: str) -> None:
    (study.parent / "net.onnx").write_bytes(b"")
    ended = tilewright("explore", "profile", study, *words)
    assert ended.code == 1 and message in ended.err


def test_profiles_without_a_page_are_refused(tilewright: Command, study: Path) -> None:
    ended = tilewright("explore", "show", study, "--profiles")
    said = " ".join(ended.err.replace("│", "").split())
    assert ended.code == 2 and "the profiles lie beside a page: name its file with --html" in said


def test_files_of_different_points_have_different_names(study: Path) -> None:
    one, two = Study(study).entries
    names = {file_name(entry, network) for entry in (one, two) for network in ("a b", "a_b", "a/b")}
    assert len(names) == 6 and not any(set(name) & set("/ #?%") for name in names)
