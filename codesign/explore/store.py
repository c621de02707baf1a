"""The file of a study: one line for each result, only ever added to; what is torn or not written costs no other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.lines import KEYS, Key, Line, key_of, print_line, read_line
from tilewright.isa.folders.locks import LockTaken, locked_at_once
from tilewright.isa.folders.whole_file import open_own, read_own, write_whole
from tilewright.isa.outside import OutsideError

POINTS = "points.jsonl"
SPACE = "space.yaml"
LOCK = "lock"

INSTRUCTIONS_FILE = "specialised.yaml"
"""The base machine with the instructions that were found, of a space that asks for some."""

SHARED = ("price", "point")
"""Kinds that say the same in every study."""

BEGINNING = b'{"kind":'
"""The first bytes of every line."""

MOST_BYTES = 1 << 32
"""The largest file of a study."""

MOST_LINE_BYTES = 1 << 24
"""The longest line; one of a search names up to some 100,000 points."""

MOST_SPACE_BYTES = 1 << 20

MOST_NOTES = 5
"""So many lines that are none are told one by one."""


def read_lines(path: Path) -> tuple[dict[Key, Line], int, list[str]]:
    """The lines of a file by key, the bytes up to the end of the last whole one, and what was wrong with others.

    Raises StudyError for what is no file of a study.
    """
    lines: dict[Key, Line] = {}
    faults: list[str] = []
    end = 0
    for number, text in enumerate(_content(path).splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            return lines, end, [*_told(faults), f"{path}:{number}: the last line is torn, and dropped: {AGAIN}"]
        end += len(text)
        try:
            if len(text) > MOST_LINE_BYTES:
                raise OutsideError(f"has more than {MOST_LINE_BYTES:,} bytes")
            line = read_line(text)
            lines[key_of(line)] = line
        except OutsideError as error:
            faults.append(f"{path}:{number}: is no line of a study, and is passed over: {error}")
    return lines, end, _told(faults)


AGAIN = "it is computed again"


def _content(path: Path) -> bytes:
    try:
        return read_own(path, MOST_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror}") from error


def _told(faults: list[str]) -> list[str]:
    more = len(faults) - MOST_NOTES
    return [*faults[:MOST_NOTES], *([f"and {more:,} more lines that are none"] if more > 0 else [])]


class Store:
    """The lines of a study's folder, held alone while it is open."""

    def __init__(self, folder: Path) -> None:
        """Open or make a folder. Raises StudyError when another run has it open, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with ExitStack() as opened:
            try:
                opened.enter_context(locked_at_once(folder / LOCK))
                self._file = open_own(folder / POINTS)
            except LockTaken as error:
                raise StudyError(
                    f"{folder}: another run has this study open (process {error.holder}); wait for it, or take "
                    "another folder"
                ) from error
            except OSError as error:
                raise StudyError(f"{error.filename or folder}: cannot be opened: {error.strerror}") from error
            opened.callback(os.close, self._file)
            self.lines, end, self.notes = read_lines(folder / POINTS)
            if not self.lines and not _may_be_ours(self._file):
                raise StudyError(f"{folder / POINTS}: is there, and is no file of a study; take another folder")
            os.ftruncate(self._file, end)
            self._end = os.lseek(self._file, end, os.SEEK_SET)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, kind: str, **key: Any) -> Line | None:
        return self.lines.get((kind, *(key[name] for name in KEYS[kind])))

    def add(self, line: Line) -> None:
        """Write a line, whole or not at all, unless the study has it. Raises StudyError when it cannot be written."""
        try:
            content = print_line(line)
            line = read_line(content)
        except OutsideError as error:
            raise StudyError(f"{self.folder / POINTS}: cannot keep a {line['kind']}: {error}") from error
        key = key_of(line)
        if self.lines.get(key) == line:
            return
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


def _may_be_ours(file: int) -> bool:
    """Whether a file without a whole line begins as one does, or is empty."""
    return BEGINNING.startswith(os.pread(file, len(BEGINNING), 0))


def ended_at(store: Store, *stages: str) -> set[Key]:
    """The keys of results that ended at one of these stages, such as those that were stopped for taking too much."""
    failures = ((key, line.get("failure") or line.get("outcome") or {}) for key, line in store.lines.items())
    return {key for key, failure in failures if failure.get("stage") in stages}


def put_space(folder: Path, text: str) -> None:
    """Keep a copy of the space beside its results. Raises StudyError for the folder of another space."""
    path = folder / SPACE
    known = read_space_of(folder) if path.exists() or path.is_symlink() else ""
    if known == text:
        return
    if known:
        raise StudyError(f"{folder}: is the study of another space; take another folder, with --reuse {folder}")
    write_whole(path, text.encode())


def read_space_of(folder: Path) -> str:
    """The space that a study keeps. Raises StudyError where it cannot be read."""
    path = folder / SPACE
    try:
        return read_own(path, MOST_SPACE_BYTES).decode()
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: is no text: {error}") from error


def merged(parts: list[Path], folder: Path) -> int:
    """Join studies of one space, such as shards, in a folder; how many lines it has. Raises StudyError."""
    for part in parts:
        if not (part / POINTS).is_file() or not (part / SPACE).is_file():
            raise StudyError(f"{part}: is no study: expected {SPACE} and {POINTS} in it")
    with Store(folder) as store:
        _merge_instructions(parts, folder)
        for part in parts:
            put_space(folder, read_space_of(part))
            for line in _lines(part):
                if key_of(line) not in store.lines:
                    store.add(line)
        return len(store.lines)


def _merge_instructions(parts: list[Path], folder: Path) -> None:
    """The instructions of parts that have some. Raises StudyError where two have different ones: no point is alike."""
    files = [file for each in (folder, *parts) if (file := each / INSTRUCTIONS_FILE).is_file()]
    for file in files[1:]:
        if file.read_bytes() != files[0].read_bytes():
            raise StudyError(
                f"{file}: has other instructions than {files[0]}; give all shards the file of one before they run"
            )
    if files:
        write_whole(folder / INSTRUCTIONS_FILE, files[0].read_bytes())


def _lines(part: Path) -> Iterator[Line]:
    yield from read_lines(part / POINTS)[0].values()
