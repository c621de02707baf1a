"""Temporary folders that go however the process ends: when it is done, interrupted, or killed.

A folder is locked while its process lives. What a killed process left is removed by the next one that makes a folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PREFIX = "tilewright-scratch-"

YOUNG_SECONDS = 60
"""A younger folder may not be locked yet."""

_open: set[Path] = set()
"""The folders of this process, for `remove_all`."""


@contextmanager
def scratch(inside: Path | None = None) -> Iterator[Path]:
    """An empty folder of this user's alone, removed at the end with all that is in it.

    It is among the system's temporary ones, or, hidden, `inside` another folder, where it can be renamed from.
    """
    place, prefix = (Path(tempfile.gettempdir()), PREFIX) if inside is None else (inside, f".{PREFIX}")
    remove_abandoned(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    _open.add(folder)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        _open.discard(folder)


def remove_all() -> None:
    """Remove all temporary folders of this process, which is about to end at once."""
    for folder in tuple(_open):
        shutil.rmtree(folder, ignore_errors=True)


@cache
def remove_abandoned(place: Path, prefix: str = PREFIX) -> None:
    """Remove what killed processes of this user left at a place; once in a process."""
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(file)
        if facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > YOUNG_SECONDS:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(file)
