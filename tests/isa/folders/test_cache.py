"""What is kept in the cache is made once, by one of the processes that want it, and never half made."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.folders.cache import _private_folder, cache_folder, kept

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


# -- whose folder it is ------------------------------------------------------------------------------------------------


STRANGER = 54321


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which others may use, too; and no cache is chosen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    _private_folder.cache_clear()
    before = os.umask(0o022)
    yield folder
    os.umask(before)


def private(temporary: Path) -> Path:
    return temporary / f"tilewright-{os.geteuid()}"


def test_without_a_home_the_cache_is_private(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> str:
        raise KeyError("no entry for the user")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", fail)
    assert cache_folder() == cache_folder() == private(temporary)
    assert private(temporary).stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == f"note: the user has no home folder; the cache is {private(temporary)}\n"


def test_what_cannot_be_written_is_kept_in_private(
    temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file stands where the folder should; root is not stopped by permissions."""
    (tmp_path / "user").write_text("a file")
    path = kept(cache_folder() / "things" / "it", make_slowly)
    assert path == private(temporary) / "things" / "it"
    assert path.read_text() == "first half, second half"
    folder = tmp_path / "user" / "tilewright"
    expected = f"note: {folder} cannot be written (Not a directory); the cache is {private(temporary)}\n"
    assert capsys.readouterr().err == expected


def test_a_new_cache_is_the_owners_alone(temporary: Path) -> None:
    before = os.umask(0)
    try:
        kept(cache_folder() / "things" / "it", make_slowly)
        assert cache_folder().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def opened_to_others(folder: Path) -> None:
    folder.chmod(0o777)


def opened_to_a_group(folder: Path) -> None:
    folder.chmod(0o770)


def in_an_open_folder(folder: Path) -> None:
    folder.parent.chmod(0o777)


def given_away(folder: Path) -> None:
    os.chown(folder, STRANGER, STRANGER)


def in_a_strangers_folder(folder: Path) -> None:
    os.chown(folder.parent, STRANGER, STRANGER)


WAYS = [opened_to_others, opened_to_a_group, in_an_open_folder, given_away, in_a_strangers_folder]


@pytest.mark.parametrize("way", WAYS)
def test_what_others_can_write_is_not_executed(
    temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: Callable[[Path], None]
) -> None:
    """For root, too: a user's folder in place of root's own."""
    folder = tmp_path / "user" / "tilewright"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "it").write_text("planted")
    opened(way, folder)
    assert cache_folder() == private(temporary)
    assert kept(cache_folder() / "it", make_slowly).read_text() == "first half, second half"
    assert capsys.readouterr().err.startswith(f"note: what lies in {folder} is executed, but ")


@pytest.mark.parametrize("way", WAYS)
def test_a_chosen_cache_that_others_can_write_is_refused(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path], None]
) -> None:
    folder = tmp_path / "user" / "chosen"
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))
    assert cache_folder() == folder
    opened(way, folder)
    with pytest.raises(IsaError, match="set TILEWRIGHT_CACHE to a folder of your own$"):
        cache_folder()


def opened(way: Callable[[Path], None], folder: Path) -> None:
    try:
        way(folder)
    except PermissionError:
        pytest.skip("only root can give a folder away")


def test_a_link_to_a_folder_that_others_can_write_is_refused(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "open" / "tilewright").mkdir(parents=True)
    (tmp_path / "open" / "tilewright").chmod(0o777)
    (tmp_path / "user").symlink_to("open")
    assert cache_folder() == private(temporary)


def planted_link(folder: Path, elsewhere: Path) -> None:
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def planted_folder(folder: Path, elsewhere: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


@pytest.mark.parametrize("plant", [planted_link, planted_folder])
def test_the_private_folder_is_not_one_that_somebody_put_there(
    temporary: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(private(temporary), tmp_path / "elsewhere")
    (tmp_path / "user").write_text("a file")
    path = kept(cache_folder() / "it", make_slowly)
    assert path.parent != private(temporary) and path.parent.parent == temporary
    assert path.parent.stat().st_mode & 0o777 == 0o700
