"""Lines by folder are those of the files that git has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import house_lines


def test_counts_the_python_files_of_each_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, lines in {"isa/a.py": 3, "isa/deep/b.py": 4, "rtl/c.py": 5, "rtl/d.txt": 6, "tests/e.py": 7}.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x\n" * lines)
    monkeypatch.setattr(house_lines, "REPOSITORY", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "isa" / "a.py").write_text("x\n")
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    assert [*house_lines.rows("HEAD~1")] == [
        "| compiler | 0 | 0 | 0 | 0 |",
        "| tilewright | 0 | 0 | 0 | 0 |",
        "| codesign | 0 | 0 | 0 | 0 |",
        "| isa | 2 | 7 | 2 | 5 |",
        "| simulator | 0 | 0 | 0 | 0 |",
        "| rtl | 1 | 5 | 1 | 5 |",
        "| total | 3 | 12 | 3 | 10 |",
    ]
