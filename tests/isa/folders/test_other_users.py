"""What belongs to another user, seen as that user; needs root, which alone can be somebody else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import filelock  # noqa: F401  (the other user may not be able to read this installation: all is imported before)
import pytest

from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.search.records import SearchSubject, Tuning
from tilewright.compiler.search.tuning import recall, remember
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.folders.cache import _private_folder
from tilewright.isa.folders.scratch import remove_abandoned, scratch

US, OTHER, THIRD = 0, 54321, 54322

pytestmark = pytest.mark.skipif(os.geteuid() != US, reason="only root can be another user")


@pytest.fixture
def open_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which everybody may write, as /tmp is, and which is that for temporary files."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent != Path("/tmp") and parent.stat().st_uid == US:
            parent.chmod(parent.stat().st_mode | 0o011)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    _private_folder.cache_clear()
    remove_abandoned.cache_clear()
    return folder


def as_other(work: Callable[[], object]) -> str:
    """What `work` gives in a process of the other user, or the error that it ends with."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


SUBJECT = SearchSubject("a", "by hand", load_machine("tiny8"), 1, (), ())


def keep_a_tuning() -> bool:
    remember(SUBJECT, Tuning(TilingOptions(), Ahead()), None)
    return recall(SUBJECT, None) is not None


@pytest.mark.parametrize("owner", [OTHER, US])
def test_a_cache_of_ones_own_or_of_root_is_used(open_folder: Path, monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    cache = open_folder / "cache"
    cache.mkdir(mode=0o755)
    os.chown(cache, owner, owner)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache))
    assert as_other(keep_a_tuning) == str(owner == OTHER)  # in root's, nothing can be written, which is no error
    assert any(cache.iterdir()) == (owner == OTHER)


def test_a_foreign_cache_is_refused(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = open_folder / "cache"
    cache.mkdir(mode=0o777)
    os.chown(cache, THIRD, THIRD)
    cache.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache))
    said = as_other(keep_a_tuning)
    assert said.startswith(f"{IsaError.__name__}: TILEWRIGHT_CACHE is {cache}")
    assert said.endswith(f"{cache} belongs to user {THIRD}: set TILEWRIGHT_CACHE to a folder of your own")


def test_without_a_home_tunings_are_kept_in_private(open_folder: Path) -> None:
    assert as_other(keep_a_tuning) == "True"
    assert (open_folder / f"tilewright-{OTHER}").stat().st_mode & 0o777 == 0o700


def test_what_another_user_left_among_temporary_folders_stays(open_folder: Path) -> None:
    theirs = open_folder / "tilewright-scratch-theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    os.utime(theirs, (1, 1))

    def work() -> str:
        with scratch() as folder:
            return folder.name

    assert as_other(work).startswith("tilewright-scratch-")
    assert list(open_folder.iterdir()) == [theirs]
