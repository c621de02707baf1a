"""Runs the command line in this process: what it prints, and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tilewright.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def make_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """A function that takes the command line's words."""

    def run(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
            raise SystemExit(0)
        captured = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0 if code is None else 1, captured.out, captured.err)

    return run
