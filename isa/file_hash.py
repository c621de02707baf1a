"""A hash of files: in the key of a result it stands for the code that found the result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


def folder_of(package: ModuleType) -> Path:
    """The folder of a package's files."""
    return Path(str(package.__file__)).parent


def hash_of_files(folders: Iterable[Path], pattern: str = "**/*.py", without: frozenset[str] = frozenset()) -> str:
    """Of the names and the bytes of all files of a pattern in the folders, but for those in a folder so named."""
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            name = path.relative_to(folder)
            if without.isdisjoint(name.parts):
                content = path.read_bytes()
                total.update(f"{folder.name}/{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()
