"""Temporary folders go: at the end, after an error, and by the next process after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.isa.folders.scratch import remove_abandoned, remove_all, scratch

OLD = 1_000_000.0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    remove_abandoned.cache_clear()
    return tmp_path


def test_goes_with_all_that_is_in_it(temporary: Path) -> None:
    with pytest.raises(ValueError), scratch() as folder:  # noqa: B017
        (folder / "below").mkdir()
        raise ValueError
    assert not any(temporary.iterdir())


def test_all_of_a_process_go_before_it_ends_at_once(temporary: Path) -> None:
    with scratch(), scratch(temporary):
        remove_all()
        assert not any(temporary.iterdir())


def test_what_a_killed_process_left_goes_with_the_next_one(temporary: Path) -> None:
    code = f"""
import tempfile, time
tempfile.tempdir = {str(temporary)!r}
from tilewright.isa.folders.scratch import scratch
with scratch() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    os.utime(left, (OLD, OLD))
    with scratch():
        assert left.is_dir(), "its process is alive"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    remove_abandoned.cache_clear()
    with scratch():
        assert not left.exists()


def test_a_young_one_stays(temporary: Path) -> None:
    """It may be of a process that has not locked it yet."""
    young = temporary / "tilewright-scratch-young"
    young.mkdir()
    with scratch():
        assert young.is_dir()
