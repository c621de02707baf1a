"""Verilator's own part of a simulation program is compiled once, whatever the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.rtl.simulation import runtime
from tilewright.rtl.simulation.verilator import OBJECTS


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bool]:
    """Whether waves were wanted, for each time that the objects were compiled: here by somebody who only says so."""
    calls: list[bool] = []

    def verilate(folder: Path, top: str, files: list[str], has_waves: bool) -> None:
        assert all((folder / file).exists() for file in files)
        (folder / OBJECTS).mkdir()
        calls.append(has_waves)

    def make(folder: Path, *arguments: str) -> None:
        for name in ("b.o", "a.o"):
            (folder / OBJECTS / name).write_text("compiled")
        (folder / OBJECTS / "names.txt").write_text("b.o a.o\n")

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "verilate", verilate)
    monkeypatch.setattr(runtime, "make", make)
    return calls


def test_is_compiled_once_with_waves_and_once_without(made: list[bool]) -> None:
    without = runtime.runtime_objects(has_waves=False)
    assert [path.name for path in without] == ["a.o", "b.o"]
    assert [path.read_text() for path in without] == ["compiled"] * 2
    assert runtime.runtime_objects(has_waves=False) == without
    assert not set(runtime.runtime_objects(has_waves=True)) & set(without)
    assert made == [False, True]


def test_is_compiled_anew_for_another_verilator(made: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime.runtime_objects(has_waves=False)
    monkeypatch.setattr(runtime, "tool_facts", lambda: ["another"])
    assert runtime.runtime_objects(has_waves=False) != before
    assert made == [False, False]
