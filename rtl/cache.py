"""The cache of what takes long to make: made once, by one process, and there complete or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Where netlists, simulations and tools are kept: $TILEWRIGHT_CACHE, or tilewright in the user's cache folder."""
    chosen = os.environ.get("TILEWRIGHT_CACHE")
    folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"
    return folder.absolute()


def kept(path: Path, make: Callable[[Path], Path]) -> Path:
    """`path`, a file or folder of the cache, which is made first when it is not there; other processes wait meanwhile.

    `make` gets an empty folder to work in and returns what in it becomes `path`, in one step: a process that is killed
    leaves no half of it. The folder of one that failed or was killed stays beside `path` until the next begins.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(f"{path.name}.lock")):
            if not path.exists():
                _make(path, make)
    return path


def _make(path: Path, make: Callable[[Path], Path]) -> None:
    prefix = f"{path.name}.unfinished."
    for leftover in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # Never the same folder twice: what a killed process started may still be writing into the last one.
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    os.replace(make(folder), path)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; the system releases it when the process ends, however it ends."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
