"""What docs/schedules.md says of sums that stay in accumulators is what the command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accumulator_networks import main


def test_the_page_has_the_table(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert printed.startswith("network ")
    assert printed in (repository / "docs" / "schedules.md").read_text()
