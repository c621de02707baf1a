"""Locks on files: one process at a time has one, and the system releases it however that process ends.

A lock is never taken through a link, and what else may be in the file at its path stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOLDER = re.compile(rb"\d{0,10}\n?")
"""What we write into a lock's file: the number of the process that has it. Any other content is not ours."""


class LockTaken(Exception):
    """Another process has the lock; `holder` is its number, or what is known of it."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"process {holder} has it")
        self.holder = holder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at a path, whose file stays; waits while another process has it. Raises OSError."""
    from filelock import FileLock

    with FileLock(path, fallback_to_soft=False):
        yield


@contextmanager
def locked_at_once(path: Path) -> Iterator[None]:
    """Hold the lock at a path, with this process's number in its file. Raises Taken, OSError."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0, fallback_to_soft=False, on_acquired=_sign)
    try:
        lock.acquire()
    except Timeout as error:
        raise LockTaken(_holder(path)) from error
    try:
        yield
    finally:
        lock.release()


def _sign(file: int) -> None:
    with suppress(OSError):  # a full disk, a pipe: only the number is missing
        if HOLDER.fullmatch(os.pread(file, 20, 0)) is not None:
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)


def _holder(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return "unknown"
    try:
        content = os.read(file, 20)
    except OSError:
        content = b""
    finally:
        os.close(file)
    return content.decode().strip() if HOLDER.fullmatch(content) and content.strip() else "unknown"
