"""Files that appear complete or not at all, and writes into what is no file: pipes, devices, what is open already."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

MOST_LINKS = 40
"""Links that are followed one after the other, as many as Linux follows."""


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file in one step: a reader sees the old content or the new one. Raises OSError that names the file.

    A symbolic link stays, and the file that it leads to is written. A pipe or a device stays too: the content goes
    into it, not in its place.
    """
    try:
        target = _followed(Path(path))
        mode = _mode(target)
        if _is_open_file(target) or (mode is not None and not stat.S_ISREG(mode)):
            target.write_bytes(content)
        else:
            _replace(target, content, mode)
    except BrokenPipeError as error:
        raise OSError(None, "whoever read from it stopped before the end", str(path)) from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _followed(path: Path) -> Path:
    """Where a chain of links ends, whether or not something is there; links of the system to open files stay."""
    for _ in range(MOST_LINKS):
        path = Path(os.path.realpath(path.parent)) / path.name
        if _is_open_file(path) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_open_file(path: Path) -> bool:
    """Whether a path stands for a file that this process has open, as /dev/stdout does."""
    return path.parts[1:2] == ("proc",) and path.parent.name == "fd"


def _mode(path: Path) -> int | None:
    """Kind and permissions of what is at a path; None if nothing is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    """Write beside the path, with the permissions of what it replaces, then rename; an interruption leaves nothing."""
    unfinished = path.with_name(f".{path.name[:32]}.{secrets.token_hex(4)}.unfinished")
    try:
        with open(unfinished, "xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
