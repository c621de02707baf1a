"""What a study says of itself while it runs, where there is no terminal, and when it is interrupted."""

from __future__ import annotations

import pytest

from tilewright.studies import progress
from tilewright.studies.progress import study_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_says_at_once_what_it_does_and_then_now_and_then(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with study_progress() as report:
        report(0, 0, "starting")
        assert capsys.readouterr().err == "starting\n"
        report(0, 8, "pricing a")
        assert capsys.readouterr().err == "0 of 8 points: pricing a\n"
        clock[0] += 29
        report(1, 8, "net on a")
        assert capsys.readouterr().err == ""
        clock[0] += 91  # two minutes for two of eight points: six minutes for the others
        report(2, 8, "net on b")
        assert capsys.readouterr().err == "2 of 8 points, about 6 min left: net on b\n"
        clock[0] += 60
        report(8, 8, "net on h")
    assert capsys.readouterr().err == ""


def test_an_interrupted_study_says_what_is_kept(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), study_progress() as report:
        report(2, 8, "net on b")
        raise KeyboardInterrupt
    assert capsys.readouterr().err.splitlines()[-1] == (
        "2 of 8 points are done, and all that is finished is kept; the same command goes on"
    )
    with pytest.raises(KeyboardInterrupt), study_progress():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
