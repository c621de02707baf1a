"""Fewer searches for cyclic garbage: programs and netlists are very many small objects that live to the end."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN = 10_000_000
"""New objects after which Python looks for cycles; its own 700 has it look thousands of times in one compilation, and
lengthens what the netlist of `base16` takes by half."""

OBJECTS_BETWEEN_AT_OTHER_TIMES = 200_000
"""Of a command, or of tests: fewer are kept at a time than while one program is made."""


def collect_rarely() -> None:
    """Look for cycles rarely from now on, and not at all when the process ends, where the system takes all memory back.

    Python looks through every object as it ends, which is a tenth of what a short command takes.
    """
    gc.set_threshold(OBJECTS_BETWEEN_AT_OTHER_TIMES)
    atexit.register(gc.freeze)


@contextmanager
def rare_collection() -> Iterator[None]:
    """Look for cycles rarely until the end; then as before. Whoever looks more rarely already, or never, still does."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS_BETWEEN:
        gc.set_threshold(OBJECTS_BETWEEN, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
