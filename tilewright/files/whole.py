"""Files that appear complete or not at all, and values as JSON in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.isa.folders.whole_file import write_whole


def write_file(path: str | Path, content: bytes | str) -> None:
    """Write a file in one step: a reader sees the old content or the new one. Raises OSError.

    Text is UTF-8; the bytes of a file's name that are not are written as Python escapes them.
    """
    write_whole(path, content.encode(errors="backslashreplace") if isinstance(content, str) else content)


def read_text(path: Path) -> str:
    """A text file; raises InputError when it is not UTF-8, OSError when it cannot be read."""
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: byte {error.start} is not UTF-8") from error


def write_json(path: str | Path, value: Any) -> None:
    write_file(path, json_text(value))


def json_text(value: Any) -> str:
    """The value as indented JSON with a final newline."""
    return json.dumps(value, indent=2, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")
