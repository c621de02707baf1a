"""Which points are worth choosing between: those that none beats in every objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tilewright.codesign.explore.figures import FIGURES

T = TypeVar("T")

Figures = Mapping[str, float | None]


def losses(figures: Figures, objectives: Sequence[str]) -> tuple[float, ...]:
    """A number for each objective, less being better; without end for one that is not known."""
    return tuple(_loss(figures.get(name), name) for name in objectives)


def _loss(value: float | None, name: str) -> float:
    if value is None:
        return float("inf")
    return -value if FIGURES[name].is_more_better else value


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether a is nowhere worse than b, and better somewhere."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and tuple(a) != tuple(b)


def front(points: Iterable[tuple[T, tuple[float, ...]]]) -> list[T]:
    """Those that no other dominates, in the order of their losses."""
    ordered = sorted(points, key=lambda each: each[1])
    kept: list[tuple[T, tuple[float, ...]]] = []
    for point, own in ordered:  # only what comes before in this order can dominate
        if not any(dominates(other, own) for _, other in kept):
            kept.append((point, own))
    return [point for point, _ in kept]
