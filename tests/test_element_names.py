"""What the element types of files are is said in one table: no other file of the product names the type of bytes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("isa", "simulator", "compiler", "rtl", "codesign", "tilewright")

TABLE = "isa/program/stored_types.py"

NAME = re.compile(r"\bint8\b")


def places_in(source: str) -> Iterator[int]:
    """The lines of strings, docstrings too, and of identifiers that hold the name as a word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.search(node.value):
            yield node.lineno
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str) and NAME.search(value):
                yield getattr(node, "lineno", 0)


def test_only_the_table_names_the_type_of_bytes(repository: Path) -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((repository / package).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents):
                continue  # the packages are linked into tilewright/
            place = path.relative_to(repository).as_posix()
            found += [f"{place}:{line}" for line in places_in(path.read_text()) if place != TABLE]
    assert found == []


def test_the_table_needs_its_exception(repository: Path) -> None:
    assert list(places_in((repository / TABLE).read_text()))


@pytest.mark.parametrize("source", ["x: np.int8", "int8 = 1", "f('int8')", "def f():\n    'An int8 one.'", "f(int8=1)"])
def test_finds_strings_and_identifiers(source: str) -> None:
    assert list(places_in(source))
