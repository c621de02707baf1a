"""What docs/types.md says of floats of few bits is what its command prints."""

from __future__ import annotations

import pytest

from tests.float_machines import rows
from tests.types import PAGE


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints() -> None:
    assert set(rows()) <= set(PAGE.read_text().splitlines())
