"""A hash of files changes with whatever is in them, and with their names."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.file_hash import hash_of_files


def test_changes_with_content_name_and_number(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "a.py"
    found = set()
    for text in ("x = 1", "x = 2"):
        file.write_text(text)
        found.add(hash_of_files([tmp_path]))
    file.rename(file.with_name("b.py"))
    found.add(hash_of_files([tmp_path]))
    (tmp_path / "c.py").write_text("")
    found.add(hash_of_files([tmp_path]))
    assert len(found) == 4


def test_leaves_out_other_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    before = hash_of_files([tmp_path])
    (tmp_path / "inner" / "a.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert hash_of_files([tmp_path], without=frozenset({"inner"})) == before
    assert hash_of_files([tmp_path], pattern="*.txt") not in (before, hash_of_files([tmp_path]))
