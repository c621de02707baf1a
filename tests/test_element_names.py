"""What the element types of files are is said in one table, what a machine computes with in its own file.

So no other file of the product names the type of bytes, writes an integer type as a literal, or one of its limits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("isa", "simulator", "compiler", "rtl", "codesign", "tilewright")

TABLE = "isa/program/stored_types.py"

NAME = re.compile(r"(?<!u)int8(?!\d|\.onnx)", re.IGNORECASE)
"""In whatever word, but for the unsigned type, of which memories are made, and names of models."""

WIDTHS = frozenset((4, 8, 16, 32))
"""Bits of integers that a machine may compute with."""

LIMITS = frozenset((127, 128, 255, 256))
"""Of a byte, signed or not, without their signs; and how many values it has."""

COMPUTING = (
    "compiler/lower",
    "compiler/nest",
    "compiler/select",
    "compiler/columns",
    "compiler/tiling",
    "codesign/bounds",
)
"""Where a limit of bytes would be a fact of one machine."""

OTHER_NUMBERS = {"compiler/select/sum_parts.py"}
"""Files of these in which such a number is something else: the most parts of a sum."""


def places_in(source: str) -> Iterator[int]:
    """The lines of strings, docstrings too, of identifiers that hold the name, and of types with literal widths."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.search(node.value):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "IntegerType" and _literals(node) & WIDTHS:
            yield node.lineno
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str) and NAME.search(value):
                yield getattr(node, "lineno", 0)


def _literals(call: ast.Call) -> set[object]:
    return {argument.value for argument in call.args if isinstance(argument, ast.Constant)}


def limits_in(source: str) -> Iterator[int]:
    """The lines of numbers that are a limit of a byte, or how many values it has."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in LIMITS:
            yield node.lineno


def files_of(repository: Path, folder: str) -> Iterator[tuple[str, str]]:
    """The place and the text of each file."""
    for path in sorted((repository / folder).rglob("*.py")):
        if not any(part.is_symlink() for part in path.parents):  # the packages are linked into tilewright/
            yield path.relative_to(repository).as_posix(), path.read_text()


def test_only_the_table_names_the_type_of_bytes(repository: Path) -> None:
    found = []
    for package in PACKAGES:
        for place, text in files_of(repository, package):
            found += [f"{place}:{line}" for line in places_in(text) if place != TABLE]
    assert found == []


@pytest.mark.parametrize("folder", COMPUTING)
def test_no_limit_of_bytes_is_a_literal(repository: Path, folder: str) -> None:
    found = [
        f"{place}:{line}"
        for place, text in files_of(repository, folder)
        if place not in OTHER_NUMBERS
        for line in limits_in(text)
    ]
    assert found == []


def test_other_numbers_need_their_exceptions(repository: Path) -> None:
    assert all(list(limits_in((repository / place).read_text())) for place in OTHER_NUMBERS)


def test_the_table_needs_its_exception(repository: Path) -> None:
    assert list(places_in((repository / TABLE).read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "x: np.int8", "int8 = 1", "f('int8')", "def f():\n    'An int8 one.'", "f(int8=1)", "INT8 = f(1)",
        "int8_terms(1)", "QuantType.QInt8", "x = IntegerType(8, True)", "x = IntegerType(32, True)",
    ],
)  # fmt: skip
def test_finds_strings_identifiers_and_types(source: str) -> None:
    assert list(places_in(source))


@pytest.mark.parametrize("source", ["np.uint8", "'d_int8.onnx'", "IntegerType(1, False)", "IntegerType(bits, True)"])
def test_leaves_bytes_models_and_widths_that_are_asked_for(source: str) -> None:
    assert not list(places_in(source))


@pytest.mark.parametrize("source", ["max(x, -128)", "x + 127", "np.arange(256)"])
def test_finds_limits(source: str) -> None:
    assert list(limits_in(source))
