"""What docs/explore.md shows is what happens, with true workers: machines are priced and networks compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_documents import follow
from tests.tilewright.command_line import make_command
from tilewright.studies import progress


@pytest.mark.long
def test_what_the_document_shows_is_what_happens(
    repository: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    update_golden: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "_lines_of_progress", lambda: lambda done, total, text: None)  # it differs each time
    (tmp_path / "programs").symlink_to(repository / "programs")
    monkeypatch.chdir(tmp_path)
    follow(repository / "docs/explore.md", make_command(capsys, monkeypatch), update_golden, is_fast=False)
