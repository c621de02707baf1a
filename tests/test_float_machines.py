"""What docs/types.md says of floats of few bits is what its command prints."""

from __future__ import annotations

import pytest

from tests.float_machines import rows
from tests.types import tables


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints() -> None:
    assert [*rows()] in tables()
