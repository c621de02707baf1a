"""How good a set of points is, and which key of a space mattered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilewright.codesign.explore.front import front, losses
from tilewright.codesign.explore.study import Entry, Study

Loss = tuple[float, ...]


def hypervolumes(study: Study) -> dict[str, float]:
    """By search: the share of the box between the best and the worst measured figures that its points beat.

    1 would be a point that is best in everything.
    """
    scaled = _scaled(study.comparable(), study.objectives)
    found = {}
    for name, labels in study.searches.items():
        own = [loss for label, loss in scaled.items() if label in labels]
        found[name] = hypervolume(front((loss, loss) for loss in own))
    return found


def _scaled(entries: Sequence[Entry], objectives: Sequence[str]) -> dict[str, Loss]:
    """The losses of each point, from 0 for the best figure of all to 1 for the worst."""
    rows = {entry.label: losses(entry.figures, objectives) for entry in entries}
    rows = {label: row for label, row in rows.items() if all(map(math.isfinite, row))}
    lows = [min(column) for column in zip(*rows.values(), strict=True)]
    highs = [max(column) for column in zip(*rows.values(), strict=True)]
    return {
        label: tuple(
            (x - low) / (high - low) if high > low else 0.0 for x, low, high in zip(row, lows, highs, strict=True)
        )
        for label, row in rows.items()
    }


def hypervolume(points: Sequence[Loss]) -> float:
    """The volume of the unit cube that the points dominate: of (½, 0) and (0, ½) it is ¾."""
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return 1.0 - min(point[0] for point in points)
    total = 0.0
    ordered = sorted(points, key=lambda point: point[-1])
    for at, point in enumerate(ordered):  # slices along the last objective
        top = ordered[at + 1][-1] if at + 1 < len(ordered) else 1.0
        if top > point[-1]:
            total += (top - point[-1]) * hypervolume([each[:-1] for each in ordered[: at + 1]])
    return total


def importance(study: Study) -> Mapping[str, Mapping[str, float]]:
    """By axis and objective: the share of the variance between points that the axis alone explains.

    Of the logarithm where a figure is above zero. Where axes act together, shares add up to less than 1; where the
    points are not all of the space, keys that were varied together share what they explain.
    """
    measured = study.measured
    return {
        axis: {name: _explained(measured, at, name) for name in study.objectives}
        for at, axis in enumerate(study.axes)
        if len({entry.values[at] for entry in measured}) > 1
    }


def _explained(entries: Sequence[Entry], axis: int, name: str) -> float:
    values = [(entry.values[axis], _log_if_positive(entry.figures.get(name))) for entry in entries]
    known = [(key, value) for key, value in values if value is not None]
    mean = sum(value for _, value in known) / max(1, len(known))
    total = sum((value - mean) ** 2 for _, value in known)
    groups: dict[object, list[float]] = {}
    for key, value in known:
        groups.setdefault(key, []).append(value)
    between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups.values())
    return between / total if total > 1e-12 else 0.0


def _log_if_positive(value: float | None) -> float | None:
    return math.log(value) if value is not None and value > 0 else value
