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


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a file, which may be behind a link. Raises OSError, also for what is no file or larger.

    A pipe or a device is refused, not waited for.
    """
    return _read(path, most_bytes, os.O_NONBLOCK)


def read_own(path: Path, most_bytes: int) -> bytes:
    """The same of a file that we made ourselves: a link in its place is refused."""
    return _read(path, most_bytes, os.O_NONBLOCK | os.O_NOFOLLOW)


def open_own(path: Path) -> int:
    """A file of ours, to be read and written, which is made if it is not there. Raises OSError for a link, a pipe…"""
    return _opened(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW)


def _read(path: Path, most_bytes: int, flags: int) -> bytes:
    with open(_opened(path, os.O_RDONLY | flags), "rb") as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, most_bytes) + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes", str(path))
    return content


def _opened(path: Path, flags: int) -> int:
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "is a symbolic link, and a file is expected here", str(path)) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return file


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
    """Write beside the path, with the permissions of what it replaces, then rename; an interruption leaves nothing.

    Where the system can, what is written has no name before it is whole, so that not even a killed process leaves it.
    """
    unfinished = path.with_name(f".{path.name[:32]}.{secrets.token_hex(4)}.unfinished")
    try:
        with open(_nameless(path.parent, unfinished), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            if not os.fstat(file.fileno()).st_nlink:
                # With a folder, Python calls linkat(2), which alone can give a nameless file its name.
                os.link(f"/proc/self/fd/{file.fileno()}", unfinished, src_dir_fd=file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _nameless(folder: Path, unfinished: Path) -> int:
    """A file in a folder that has no name yet (open(2), O_TMPFILE); else one with that name."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (OSError, AttributeError):
        return os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
