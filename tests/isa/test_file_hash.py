"""The hash of code changes with what the code does and with its names, and not with what only readers see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa import file_hash
from tilewright.isa.file_hash import hash_of_code, hash_of_files, hash_of_tree

CODE = b'''"""Of a module."""
A = 1  # why
"""Of a name."""


def f(x):
    """Of a function."""
    return (x +
            A)
'''


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_changes_with_content_name_and_number(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "inner").mkdir(parents=True)
    file = folder / "inner" / "a.py"
    found = set()
    for text in ("x = 1", "x = 2"):
        file.write_text(text)
        found.add(hash_of_code([folder]))
    file.rename(file.with_name("b.py"))
    found.add(hash_of_code([folder]))
    (folder / "c.py").write_text("")
    found.add(hash_of_code([folder]))
    assert len(found) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"  # why", b""),
        (b"# why", b"# because"),
        (b"Of a module", b"Of this module"),
        (b"Of a name", b"Of this name"),
        (b"Of a function", b"Of this function"),
        (b"(x +\n            A)", b"x + A"),
    ],
)
def test_stays_when_what_only_readers_see_changes(old: bytes, new: bytes) -> None:
    assert old in CODE
    assert hash_of_tree(CODE.replace(old, new)) == hash_of_tree(CODE)


@pytest.mark.parametrize(("old", "new"), [(b"A = 1", b"A = 2"), (b"x +", b"x -"), (b"1", b"'1'"), (b"f(", b"g(")])
def test_changes_with_what_code_does(old: bytes, new: bytes) -> None:
    assert hash_of_tree(CODE.replace(old, new)) != hash_of_tree(CODE)


def test_a_file_is_read_as_a_tree_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_bytes(CODE)
    found = hash_of_code([folder])
    monkeypatch.setattr(file_hash, "hash_of_tree", None)
    assert hash_of_code([folder]) == found
    monkeypatch.undo()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache))
    next(cache.glob("code/*.json")).write_text("no JSON")
    assert hash_of_code([folder]) == found


def test_leaves_out_other_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "inner").mkdir(parents=True)
    before = hash_of_code([folder])
    (folder / "inner" / "a.py").write_text("")
    (folder / "notes.txt").write_text("")
    assert hash_of_code([folder], without=frozenset({"inner"})) == before
    assert hash_of_files([folder], "*.txt") != hash_of_files([folder], "*.py")
