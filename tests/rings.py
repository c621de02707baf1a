"""Which ring a case belongs to: one law's first cases to the slow ring, its other cases to the long one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def long_beyond(kept: int, cases: Iterable[object]) -> list[object]:
    """Parameters of a slow test: the first `kept` stay in the slow ring, all others wait for the long one."""
    every = list(cases)
    return [*every[:kept], *(pytest.param(case, marks=pytest.mark.long) for case in every[kept:])]
