"""Which ring a case belongs to: one law's first cases to a ring that runs more often, its other cases to the next."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def long_beyond(kept: int, cases: Iterable[object]) -> list[object]:
    """Parameters of a slow test: the first `kept` stay in the slow ring, all others wait for the long one."""
    return _marked_beyond(kept, cases, pytest.mark.long)


def slow_beyond(kept: int, cases: Iterable[object]) -> list[object]:
    """Parameters of a fast test: the first `kept` stay in the fast ring, all others wait for the slow one."""
    return _marked_beyond(kept, cases, pytest.mark.slow)


def _marked_beyond(kept: int, cases: Iterable[object], mark: pytest.MarkDecorator) -> list[object]:
    every = list(cases)
    return [*every[:kept], *(pytest.param(case, marks=mark) for case in every[kept:])]
