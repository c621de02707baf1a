"""Which ring a case belongs to: one law's first cases to a ring that runs more often, its other cases to the next."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def long_beyond(kept: int, cases: Iterable[object]) -> list[object]:
    """Parameters of a slow test: the first `kept` stay in the slow ring, all others wait for the long one."""
    every = list(cases)
    return [*every[:kept], *(pytest.param(case, marks=pytest.mark.long) for case in every[kept:])]


def slow_beyond(kept: int, cases: Iterable[object]) -> list[object]:
    """Parameters of a fast test, a tuple for several: the first `kept` stay fast, all others wait for the slow ring."""
    every = list(cases)
    others = (case if isinstance(case, tuple) else (case,) for case in every[kept:])
    return [*every[:kept], *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]
