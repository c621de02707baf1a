"""Verifying a study: what is tested, what is kept, and what a failure does. The tests of machines are stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tests.tilewright.command_line import Command
from tilewright.codesign.explore import run as running
from tilewright.codesign.verify import verify as verifying
from tilewright.codesign.verify.verdict import Verdict, fails, holds, not_done
from tilewright.values import verified

Answer = Callable[[str, Verdict], None]


@pytest.fixture
def study(tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of three points, all on its front, of which act of 32 KiB is the fastest."""
    monkeypatch.setattr(running.run, "__defaults__", (*(running.run.__defaults__ or ())[:-1], serve))
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32], engines.vec.queue: [4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, area_mm2]\n"
    )
    assert tilewright("explore", tmp_path / "space.yaml", "-o", tmp_path / "s").code == 0
    return tmp_path / "s"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The degrees that are tested, in order; every test holds."""
    asked: list[str] = []

    def test_of(degree: str) -> Callable[..., Verdict]:
        def test(*_: object) -> Verdict:
            asked.append(degree)
            return holds(f"{degree} is fine")

        return test

    monkeypatch.setattr(verified, "compare_bits", test_of("bits"))
    for name, degree in (("verify_hardware", "rtl"), ("verify_datapath", "proof"), ("verify_area", "area")):
        monkeypatch.setattr(verifying, name, test_of(degree))
    return asked


def test_tests_the_front_to_every_degree_and_shows_it(tilewright: Command, study: Path, asked: list[str]) -> None:
    ended = tilewright("explore", "verify", study)
    assert (ended.code, asked) == (0, ["bits", "rtl", "proof", "area"] * 3), ended.err
    assert ended.out.splitlines()[2].split() == [
        "memories.act.kib=32",
        "engines.vec.queue=4",
        "yes",
        "yes",
        "yes",
        "yes",
    ]
    shown = tilewright("explore", "show", study)
    assert "memories.act.kib 64 → 32  yes   yes  yes    yes" in shown.out


def test_tests_nothing_twice(tilewright: Command, study: Path, asked: list[str]) -> None:
    first = tilewright("explore", "verify", study, "--degree", "bits")
    asked.clear()
    assert tilewright("explore", "verify", study, "--degree", "bits").out == first.out
    assert asked == []


def test_a_study_may_end_with_a_test_of_its_front(tilewright: Command, study: Path, asked: list[str]) -> None:
    ended = tilewright("explore", study.parent / "space.yaml", "-o", study, "--verify")
    assert ended.code == 0 and len(asked) == 12
    assert "Verified" in ended.out


def test_a_study_whose_front_fails_is_shown_and_ends_with_1(
    tilewright: Command, study: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "verify_area", lambda *_: fails("too large"))
    ended = tilewright("explore", study.parent / "space.yaml", "-o", study, "--verify", "--json", "-")
    assert ended.code == 1
    outcomes = [point["verified"]["area"]["outcome"] for point in json.loads(ended.out)["points"]]
    assert outcomes == ["fails"] * 3


def test_a_failure_is_loud_and_kept(
    tilewright: Command, study: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "verify_datapath", lambda machine: fails("add: false for a = 1"))
    ended = tilewright("explore", "verify", study, "memories.act.kib=8 engines.vec.queue=4")
    assert ended.code == 1
    assert (
        "memories.act.kib=8 engines.vec.queue=4  yes   yes  FAILS  yes" in ended.out
        and "1 of 4 tests FAILS." in ended.out
    )
    shown = tilewright("explore", "show", study)
    assert "FAILS: memories.act.kib=8 engines.vec.queue=4: proof: add: false for a = 1\n" in shown.out
    [point] = [
        each
        for each in json.loads(tilewright("explore", "show", study, "--json", "-").out)["points"]
        if each["label"] == "memories.act.kib=8 engines.vec.queue=4"
    ]
    assert point["verified"]["proof"] == {"outcome": "fails", "text": "add: false for a = 1"}
    assert tilewright("explore", "verify", study, "memories.act.kib=8 engines.vec.queue=4").code == 1


def test_what_could_not_be_done_is_said_and_done_another_time(
    tilewright: Command, study: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(verifying, "verify_hardware", lambda machine: not_done("Verilator is not installed here"))
        ended = tilewright("explore", "verify", study, "memories.act.kib=8 engines.vec.queue=4", "--degree", "rtl")
    assert ended.code == 0 and "not done" in ended.out
    assert "memories.act.kib=8 engines.vec.queue=4: rtl not done: Verilator is not installed here" in ended.err
    assert (
        tilewright("explore", "verify", study, "memories.act.kib=8 engines.vec.queue=4", "--degree", "rtl").out.split()[
            -1
        ]
        == "yes"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("memories.act.kib=9 engines.vec.queue=4",),
            "no point 'memories.act.kib=9 engines.vec.queue=4' (did you mean",
        ),
        (("--degree", "bit"), "no degree 'bit' (did you mean 'bits'?); there are: bits, rtl, proof, area"),
    ],
)
def test_refuses(tilewright: Command, study: Path, asked: list[str], words: tuple[str, ...], message: str) -> None:
    ended = tilewright("explore", "verify", study, *words)
    assert (ended.code, asked) == (1, []) and message in ended.err


def test_a_study_of_another_version_is_refused(
    tilewright: Command, study: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "version", lambda: "newer")
    ended = tilewright("explore", "verify", study)
    assert (ended.code, asked) == (1, []) and "is of another version of this program" in ended.err


def test_a_study_whose_machines_have_changed_is_refused(tilewright: Command, study: Path, asked: list[str]) -> None:
    space = study.parent / "space.yaml"
    space.write_text(space.read_text().replace("base: tiny8", "base: base16"))
    ended = tilewright("explore", "verify", study, "--space", space)
    assert (ended.code, asked) == (1, []) and "has changed since; run the study again" in ended.err


def test_a_study_whose_files_have_moved_asks_for_its_space(tilewright: Command, study: Path, asked: list[str]) -> None:
    moved = study.parent / "elsewhere"
    moved.mkdir()
    for name in ("space.yaml", "one.onnx"):
        (study.parent / name).rename(moved / name)
    ended = tilewright("explore", "verify", study)
    assert ended.code == 1 and "one.onnx" in ended.err and "--space" in ended.err
    assert tilewright("explore", "verify", study, "--space", moved / "space.yaml").code == 0
