"""Parts that look alike: a network in parts repeats its layers, and what a search finds for one holds for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.search.records import Tuning
from tilewright.compiler.tiling.planned import Planned


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """What was found for a selection, and the `arrangement` of its program, if others that look alike can use it."""

    tuning: Tuning
    arrangement: Callable[[], Arrangement | None] = _nothing


class Alike:
    """What was found for selections of one network, for others with the same stand-in.

    `planned`: what plans found of their nests, for others that are alike; `Options` take it.
    """

    def __init__(self) -> None:
        self.planned = Planned()
        self._found: dict[str, FoundPlan] = {}

    def recall(self, key: str) -> FoundPlan | None:
        """What was found for a subject of this key; None if there was none."""
        return self._found.get(key)

    def remember(self, key: str, found: FoundPlan) -> None:
        """Keep what was found for a selection, unless something is known of one like it."""
        self._found.setdefault(key, found)
