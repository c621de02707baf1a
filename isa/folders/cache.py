"""A cache for files that take long to make. Each is made once, by one process, and is there completely or not at all.

What lies in it is executed, so it is only ever a folder that nobody else can write to.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tilewright.isa.errors import IsaError
from tilewright.isa.folders.locks import locked


def cache_folder() -> Path:
    """Where netlists, simulations and tools are kept: $TILEWRIGHT_CACHE, or tilewright in the user's cache folder.

    Where there is no user's folder, or others can write to it, a private temporary one, with a note on standard error.
    Raises IsaError when $TILEWRIGHT_CACHE is a folder that others can write to.
    """
    chosen = os.environ.get("TILEWRIGHT_CACHE")
    if chosen:
        folder = Path(chosen).absolute()
        fault = _why_unsafe(folder)
        if fault is not None:
            raise IsaError(f"TILEWRIGHT_CACHE is {folder}, and what lies in it is executed, but {fault}")
        return folder
    try:
        folder = (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright").absolute()
    except RuntimeError:  # neither HOME nor an entry for the user
        return _private_folder("the user has no home folder")
    fault = _why_unsafe(folder)
    return folder if fault is None else _private_folder(f"what lies in {folder} is executed, but {fault}")


def kept(path: Path, make: Callable[[Path], Path]) -> Path:
    """A file or folder of the cache, which is made first when it is not there; other processes wait meanwhile.

    It is at `path`, or in a private temporary folder where nothing can be written there: use the path that comes back.

    `make` gets an empty folder to work in and returns what in it becomes `path`, in one step: a process that is killed
    leaves no half of it. The folder of one that failed or was killed stays beside `path` until the next begins.
    """
    if path.exists():
        return path
    path = _writable(path)
    with locked(path.with_name(f"{path.name}.lock")):
        if not path.exists():
            _make(path, make)
    return path


def digest(*texts: str) -> str:
    """A name for what was made from these texts, in this order."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(hashlib.sha256(text.encode()).digest())
    return whole.hexdigest()[:32]


# -- whose folder it is ------------------------------------------------------------------------------------------------


def _why_unsafe(folder: Path) -> str | None:
    """Why somebody else can put something into a folder, or another folder into its place; None if nobody can.

    Root counts as nobody else, and so does whoever owns the whole system (in a container not always root).
    """
    real = Path(os.path.realpath(folder))
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}
    for place in (real, *real.parents):
        try:
            found = place.stat()
        except OSError:
            continue  # not there yet: it is made for its owner alone
        is_shared = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if is_shared and (place == real or not found.st_mode & stat.S_ISVTX):
            return f"others can write to {place}: chmod go-w it, or set TILEWRIGHT_CACHE to a folder of your own"
        if found.st_uid not in trusted:
            return f"{place} belongs to user {found.st_uid}: set TILEWRIGHT_CACHE to a folder of your own"
    return None


@functools.cache
def _private_folder(reason: str) -> Path:
    """A folder of this user's alone among the temporary ones, kept for the next time; the reason is noted once."""
    folder = Path(tempfile.gettempdir()) / f"tilewright-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        is_ours = not folder.is_symlink() and folder.stat().st_uid == os.geteuid() and _why_unsafe(folder) is None
    except OSError:
        is_ours = False
    if not is_ours:  # somebody else was there first
        folder = Path(tempfile.mkdtemp(prefix="tilewright-"))
    print(f"note: {reason}; the cache is {folder}", file=sys.stderr)
    return folder


def _writable(path: Path) -> Path:
    """The path, whose folder is there and can be written; or its like in a private folder."""
    folder = cache_folder()
    try:
        if path.is_relative_to(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        if not path.is_relative_to(folder):
            raise
        private = _private_folder(f"{folder} cannot be written ({error.strerror})") / path.relative_to(folder)
    private.parent.mkdir(parents=True, exist_ok=True)
    return private


# -- making it ---------------------------------------------------------------------------------------------------------


def _make(path: Path, make: Callable[[Path], Path]) -> None:
    prefix = f"{path.name}.unfinished."
    for leftover in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # Never the same folder twice: what a killed process started may still be writing into the last one.
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    os.replace(make(folder), path)
    shutil.rmtree(folder, ignore_errors=True)
