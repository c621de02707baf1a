"""Which answers of the machine are others than a reference's: how many, whether for better or worse, and which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.evaluation.metric import CLASSES_AXIS, Metric

NAMED = 5
"""So many images of a kind of change are named."""


@dataclass(frozen=True, slots=True)
class Confused:
    """So many answers changed from one class to another; `label` is what would be right, if that is known."""

    label: int | None
    before: int
    now: int
    count: int
    images: tuple[int, ...]  # the first NAMED of them


@dataclass(frozen=True, slots=True)
class Changes:
    """What is other than in a reference. Of classes, the best one of each answer counts."""

    answers: int  # all there are
    changed: int
    gained: int | None  # changed, and right now; None without labels, and where answers are numbers
    lost: int | None  # changed, and no longer right
    confused: tuple[Confused, ...]  # the most frequent first
    mean: float  # of the absolute differences of all numbers
    furthest: float


def changes_of(metric: Metric, now: NDArray[Any], before: NDArray[Any], labels: NDArray[Any] | None) -> Changes:
    """The answers `now` against those `before`, [images, classes, …] or any numbers [images, …]."""
    differences = np.abs(now.astype(np.float64) - before.astype(np.float64))
    mean, furthest = float(differences.mean()), float(differences.max())
    if not metric.is_of_classes:
        changed = int((differences.reshape(len(now), -1) > 0).any(axis=1).sum())
        return Changes(len(now), changed, None, None, (), mean, furthest)
    one, other = (np.argmax(answers, axis=CLASSES_AXIS) for answers in (now, before))
    is_changed = one != other
    images = np.broadcast_to(np.arange(len(now)).reshape(-1, *[1] * (one.ndim - 1)), one.shape)[is_changed]
    right = None if labels is None else labels[is_changed]
    gained = None if right is None else int((one[is_changed] == right).sum())
    lost = None if right is None else int((other[is_changed] == right).sum())
    kinds = list(zip(_listed(right, len(images)), other[is_changed].tolist(), one[is_changed].tolist(), strict=True))
    confused = tuple(
        Confused(
            *kind, count, tuple(dict.fromkeys(int(i) for i, k in zip(images, kinds, strict=True) if k == kind))[:NAMED]
        )
        for kind, count in Counter(kinds).most_common()
    )
    return Changes(one.size, int(is_changed.sum()), gained, lost, confused, mean, furthest)


def _listed(labels: NDArray[Any] | None, count: int) -> list[int | None]:
    return [None] * count if labels is None else labels.tolist()
