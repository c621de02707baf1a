"""The file of a study: one line for each result, only ever added to; what is torn or cannot be written costs no other.

A line is known by its kind and its key. Machines are known by `machine_key`, networks by the hash of their bytes, and
what was computed by the version of the program that did it, so that no result of older code passes for one of newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tilewright import codesign, compiler, isa, rtl, simulator
from tilewright.codesign.errors import StudyError
from tilewright.isa.binary.elf_writer import tool_version
from tilewright.isa.file_hash import folder_of, hash_of_files

POINTS = "points.jsonl"
SPACE = "space.yaml"
LOCK = "lock"

KEYS = {
    "space": ("version",),
    "machine": ("label",),
    "price": ("machine", "clock", "version"),
    "point": ("machine", "network", "effort", "version"),
    "dropped": ("label", "version"),
    "search": ("name", "shard", "version"),
    "verified": ("machine", "degree", "networks", "effort", "version"),
}
"""The kinds of lines, and what each is known by."""

ROOMS_WITHOUT_RESULTS = frozenset({"explore", "verify", "compare", "advise"})
"""Folders of code that no result of a study depends on."""

SHARED = ("price", "point")
"""Kinds that say the same in every study."""

Line = Mapping[str, Any]
Key = tuple[Any, ...]


@cache
def version() -> str:
    """The program's version and a hash of all code, and of the processes' figures, that a result depends on."""
    packages = (codesign, compiler, isa, rtl, simulator)
    code = hash_of_files((folder_of(package) for package in packages), without=ROOMS_WITHOUT_RESULTS)
    figures = hash_of_files((folder_of(codesign),), pattern="processes/*/*.*")
    return f"{tool_version()}+{code[:8]}{figures[:8]}"


def key_of(line: Line) -> Key:
    """What a line is known by. Raises StudyError for one of no known kind."""
    kind = line.get("kind")
    if kind not in KEYS or any(name not in line for name in KEYS[kind]):
        raise StudyError(f"not a line of a study: {json.dumps(line)[:80]}")
    return (kind, *(line[name] for name in KEYS[kind]))


def read_lines(path: Path) -> tuple[dict[Key, Line], int, list[str]]:
    """The lines of a file by key, the bytes up to the end of the last whole one, and what was wrong with others."""
    lines: dict[Key, Line] = {}
    notes: list[str] = []
    end = 0
    content = path.read_bytes() if path.exists() else b""
    for number, text in enumerate(content.splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            notes.append(f"{path}:{number}: the last line is torn, and dropped: it is computed again")
            break
        end += len(text)
        try:
            line = json.loads(text)
            lines[key_of(line)] = line
        except (ValueError, AttributeError, TypeError, StudyError):
            notes.append(f"{path}:{number}: is no line of a study, and is passed over")
    return lines, end, notes


class Store:
    """The lines of a study's folder, held alone while it is open."""

    def __init__(self, folder: Path) -> None:
        """Open or make a folder. Raises StudyError when another run has it open, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._lock = _locked(folder / LOCK)
        try:
            self.lines, end, self.notes = read_lines(folder / POINTS)
            self._file = os.open(folder / POINTS, os.O_RDWR | os.O_CREAT, 0o666)
            os.ftruncate(self._file, end)
            self._end = os.lseek(self._file, end, os.SEEK_SET)
        except OSError:
            os.close(self._lock)
            raise

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, kind: str, **key: Any) -> Line | None:
        return self.lines.get((kind, *(key[name] for name in KEYS[kind])))

    def add(self, line: Line) -> None:
        """Write a line, whole or not at all, unless the study has it. Raises StudyError when it cannot be written."""
        key = key_of(line)
        if self.lines.get(key) == line:
            return
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            written = os.write(self._file, content)
            if written < len(content):
                written += os.write(self._file, content[written:])
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
            raise StudyError(
                f"{self.folder / POINTS}: cannot be written: {error.strerror}; all {len(self.lines)} results before "
                "are kept: make room and give the same command again"
            ) from error
        self._end += len(content)
        self.lines[key] = line

    def take_over(self, other: Path) -> int:
        """The prices and points of another study; how many were new. Raises StudyError where there is none."""
        if not (other / POINTS).is_file():
            raise StudyError(f"{other}: is no study: it has no {POINTS}")
        new = [
            line for key, line in read_lines(other / POINTS)[0].items() if key[0] in SHARED and key not in self.lines
        ]
        for line in new:
            self.add(line)
        return len(new)


def stopped_at_limits(store: Store) -> set[Key]:
    """The keys of results that were stopped for taking too much."""
    failures = ((key, line.get("failure") or line.get("outcome") or {}) for key, line in store.lines.items())
    return {key for key, failure in failures if failure.get("stage") == "limit"}


def _locked(path: Path) -> int:
    """A lock on a file, which ends with the process however that ends. Raises StudyError when another holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise StudyError(
            f"{path.parent}: another run has this study open (process {holder}); wait for it, or take another folder"
        ) from error
    with contextlib.suppress(OSError):  # a full disk: only the number is missing
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file


def put_space(folder: Path, text: str) -> None:
    """Keep a copy of the space beside its results. Raises StudyError for the folder of another space."""
    path = folder / SPACE
    if path.exists() and path.stat().st_size:
        if path.read_text() != text:
            raise StudyError(f"{folder}: is the study of another space; take another folder, with --reuse {folder}")
        return
    path.write_text(text)


def merged(parts: list[Path], folder: Path) -> int:
    """Join studies of one space, such as shards, in a folder; how many lines it has. Raises StudyError."""
    for part in parts:
        if not (part / POINTS).is_file() or not (part / SPACE).is_file():
            raise StudyError(f"{part}: is no study: expected {SPACE} and {POINTS} in it")
    with Store(folder) as store:
        for part in parts:
            put_space(folder, (part / SPACE).read_text())
            for line in _lines(part):
                if key_of(line) not in store.lines:
                    store.add(line)
        return len(store.lines)


def _lines(part: Path) -> Iterator[Line]:
    yield from read_lines(part / POINTS)[0].values()
