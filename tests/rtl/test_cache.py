"""What is kept in the cache is made once, by one of the processes that want it, and never half made."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from tilewright.rtl.cache import cache_folder, kept

PROCESSES = 4


def make_slowly(folder: Path) -> Path:
    """A file with one line, and one more line beside the cache for each time that it is made."""
    with open(folder.parent.parent / "makings", "a") as makings:
        makings.write("made\n")
    with open(folder / "product", "w") as product:
        product.write("first half, ")
        product.flush()
        time.sleep(0.3)
        product.write("second half")
    return folder / "product"


def read_kept(path: Path, results: multiprocessing.SimpleQueue[str]) -> None:
    results.put(kept(path, make_slowly).read_text())


def hang(path: Path) -> None:
    def half(folder: Path) -> Path:
        (folder / "product").write_text("first half, ")
        time.sleep(60)
        return folder / "product"

    kept(path, half)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    assert cache_folder() == tmp_path / "tilewright"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_relative_cache_is_the_same_from_every_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "own")
    assert cache_folder() == tmp_path / "own"


def test_several_processes_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    processes = [context.Process(target=read_kept, args=(tmp_path / "cache" / "it", results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert [results.get() for _ in range(PROCESSES)] == ["first half, second half"] * PROCESSES
    assert (tmp_path / "makings").read_text() == "made\n"


def test_makes_again_what_a_killed_process_was_making(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "it"
    process = multiprocessing.get_context("spawn").Process(target=hang, args=(path,))
    process.start()
    wait_for(path.parent, "it.unfinished.*/product")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not path.exists()
    assert kept(path, make_slowly).read_text() == "first half, second half"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["it", "it.lock"]


def test_keeps_nothing_of_a_failed_one(tmp_path: Path) -> None:
    def fail(folder: Path) -> Path:
        (folder / "product").write_text("first half, ")
        raise ValueError("no second half")

    with pytest.raises(ValueError, match="^no second half$"):
        kept(tmp_path / "it", fail)
    assert not (tmp_path / "it").exists()


def test_keeps_a_folder(tmp_path: Path) -> None:
    def make(folder: Path) -> Path:
        (folder / "product").mkdir()
        (folder / "product" / "file").write_text("whole")
        return folder / "product"

    assert (kept(tmp_path / "it", make) / "file").read_text() == "whole"


def test_a_full_cache_need_not_be_writable(tmp_path: Path) -> None:
    """Nothing is written for what is there, so no lock file either."""
    (tmp_path / "it").write_text("whole")
    assert kept(tmp_path / "it", make_slowly).read_text() == "whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]


def wait_for(folder: Path, pattern: str) -> None:
    end = time.monotonic() + 30
    while not list(folder.glob(pattern)):
        assert time.monotonic() < end, f"{folder} has no {pattern}"
        time.sleep(0.02)
