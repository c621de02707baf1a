"""How long work says what it does: the caller gives a function that shows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[str], AbstractContextManager[None]]
"""Given what is done next, shows it while the body runs."""


def silent(title: str) -> AbstractContextManager[None]:
    """Shows nothing."""
    return nullcontext()
