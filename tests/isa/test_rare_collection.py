"""Python's own collection of garbage is as before when a compilation is over."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tilewright.isa.rare_collection import OBJECTS_BETWEEN, rare_collection


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collects_rarely_and_then_as_before() -> None:
    gc.set_threshold(700, 11, 12)
    with rare_collection():
        assert gc.get_threshold() == (OBJECTS_BETWEEN, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


def test_collects_as_before_after_an_error() -> None:
    gc.set_threshold(700, 11, 12)
    with pytest.raises(ValueError), rare_collection():
        raise ValueError
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [0, 2 * OBJECTS_BETWEEN])
def test_leaves_what_is_rarer_already(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with rare_collection():
        assert gc.get_threshold()[0] == own


ENDS = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count()))  # called last
from tilewright.isa.rare_collection import collect_rarely
collect_rarely()
"""


def test_nothing_is_looked_through_at_the_end() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert int(ended.stdout) > 0
