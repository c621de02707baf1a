"""The README's picture of a profile's page shows the cycles that the network takes today."""

from __future__ import annotations

from pathlib import Path

from tests.digits import MODEL
from tests.page_picture import PICTURE, cycles_of
from tilewright.api import compile  # noqa: A004


def test_the_picture_shows_what_is_measured(repository: Path) -> None:
    cycles = compile(str(MODEL), "tiny8", effort=0).run_profile().cycles
    assert cycles_of(repository / PICTURE) == cycles, "draw it anew: python -m tests.page_picture"
