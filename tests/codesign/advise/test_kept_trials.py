"""Advice that was interrupted goes on: what was tried is not tried again, and the answer is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.advise.test_advice import TINY, made_up
from tilewright.codesign.advise.advice import Advice, advise_machine, most_promising_first
from tilewright.codesign.advise.changes import Change, Way, steps
from tilewright.codesign.advise.trials import Bench, LayerCycles, Trial
from tilewright.codesign.points.network import Network

KEYS = ["dram", "array", "memories.act.kib"]


class Stopped(BaseException):
    """As Ctrl-C."""


def asked(folder: Path, only: list[str] = KEYS, tell: list[str] | None = None) -> Advice:
    lines: list[str] = [] if tell is None else tell
    return advise_machine(
        [Network("n", b"")], TINY, "tiny8", only=only, jobs=1, tell=lines.append, keep=folder, with_price=True
    )


def test_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def trial(bench: Bench, change: Change | None) -> Trial:
        if len(made) == 5:
            raise Stopped
        made.append("" if change is None else change.name)
        return made_up(bench, change)

    monkeypatch.setattr(Bench, "trial", trial)
    with pytest.raises(Stopped):
        asked(tmp_path)
    first = list(made)
    assert len(first) == 5
    monkeypatch.setattr(
        Bench, "trial", lambda bench, change: made.append(str(change and change.name)) or made_up(bench, change)
    )
    found = asked(tmp_path)
    assert not set(first) & set(made[5:])
    monkeypatch.setattr(Bench, "trial", made_up)
    assert found.as_json() == asked(tmp_path / "other").as_json()


def test_another_question_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "trial", made_up)
    asked(tmp_path)
    monkeypatch.setattr(Bench, "trial", lambda bench, change: 1 // 0)
    asked(tmp_path)
    with pytest.raises(ZeroDivisionError):
        advise_machine([Network("n", b"other")], TINY, "tiny8", only=KEYS, jobs=1, keep=tmp_path)
    with pytest.raises(ZeroDivisionError):
        advise_machine([Network("n", b"")], TINY, "tiny8", only=KEYS, jobs=1, effort=0, keep=tmp_path)


def test_says_what_came_of_each_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "trial", made_up)
    lines: list[str] = []
    found = asked(tmp_path, ["array.rows"], lines)
    assert lines[0] == "array.rows 8 → 16: 27.8 % fewer cycles, 8.000 mm² more"  # 1,800 cycles become 1,300
    assert len(lines) == len(found.trials) - 1


def test_what_bounds_most_cycles_comes_first() -> None:
    layers = {"n": {"a": LayerCycles(900, "dram"), "b": LayerCycles(100, "compute")}}
    base = Trial(None, None, (), layers)
    changes = steps(TINY)
    ordered = [changes[place] for place in most_promising_first(changes, base)]
    assert sorted(change.name for change in ordered) == sorted(change.name for change in changes)
    ups = [change for change in ordered if change.way is Way.UP and change.key]
    assert ordered[: len(ups)] != changes[: len(ups)]
    names = [change.key for change in ups]
    assert names.index("dram.bus_bytes") < names.index("array.rows")
    assert all(change.way is not Way.DOWN for change in ordered[: len(ups)])
