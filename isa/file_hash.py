"""Hashes of files: in the key of a result that is kept they stand for the code that found it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import msgspec

from tilewright.isa.folders.cache import cache_folder
from tilewright.isa.folders.whole_file import read_own, write_whole
from tilewright.isa.outside import OutsideError, from_json

MOST_BYTES = 1 << 24
MOST_KNOWN = 20_000
"""So many files are remembered, of all versions of the code that ran here. A file takes some 130 bytes."""

PLACE = "trees-1.json"
"""The number goes up when a tree is told in another way."""

_KNOWN = msgspec.json.Decoder(dict[str, str])


def folder_of(package: ModuleType) -> Path:
    """The folder of a package's files."""
    return Path(str(package.__file__)).parent


def hash_of_files(folders: Iterable[Path], pattern: str) -> str:
    """Of the names and the bytes of all files of a pattern in the folders."""
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            content = path.read_bytes()
            total.update(f"{folder.name}/{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def hash_of_code(folders: Iterable[Path], without: frozenset[str] = frozenset()) -> str:
    """Of what the Python files in folders say, but for those in a folder of a name in `without`.

    Comments, docstrings and the layout of lines are no part of it: a result that is kept stays when they change.
    """
    known = _known()
    before, total = len(known), hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob("**/*.py")):
            name = path.relative_to(folder)
            if without.isdisjoint(name.parts):
                content = path.read_bytes()
                key = hashlib.sha256(content).hexdigest()
                if key not in known:
                    known[key] = hash_of_tree(content)
                total.update(f"{folder.name}/{name}\0{known[key]}\0".encode())
    if len(known) > before:
        _keep(known)
    return total.hexdigest()


def hash_of_tree(source: bytes) -> str:
    """Of the syntax tree of a file's code, the same for every version of Python that reads it as this one does."""
    return hashlib.sha256("".join(_told(ast.parse(source))).encode()).hexdigest()


def _told(node: object) -> Iterator[str]:
    """A tree as text, without docstrings, and without what is empty: newer versions of Python have more of that."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            inner = _without_docstring(node) if name == "body" else value
            if inner not in (None, []):
                yield f" {name}="
                yield from _told(inner)
        yield ")"
    elif isinstance(node, list):
        for each in node:
            yield from _told(each)
    else:
        yield repr(node)


def _without_docstring(node: ast.AST) -> object:
    """The body of a module, class or function, without the strings that only readers want; of others as it is."""
    body = getattr(node, "body", None)
    if not isinstance(body, list):
        return body
    return [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]


def _known() -> dict[str, str]:
    """The hashes of trees by those of files' bytes, as they were kept; a damaged file counts as none."""
    with suppress(OSError, OutsideError):
        return from_json(_KNOWN, read_own(_place(), MOST_BYTES))
    return {}


def _keep(known: dict[str, str]) -> None:
    """Keep the newest of them for the next run. Of two runs at a time, what one adds may be lost: it is found again."""
    with suppress(OSError):
        _place().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(_place(), msgspec.json.encode(dict(list(known.items())[-MOST_KNOWN:])))


def _place() -> Path:
    return cache_folder() / "code" / PLACE
