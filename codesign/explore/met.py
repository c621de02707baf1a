"""Whether any point of a space meets constraints of its keys, before any work."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from tilewright.codesign.explore.halton import halton_point
from tilewright.codesign.explore.space import Axis, Constraint, Point
from tilewright.isa.files.yaml_tree import Scalar

MOST_TRIED = 20_000
"""Points that are tried for one that meets the constraints before any work."""


def is_met_by_some(constraints: Sequence[Constraint], axes: Sequence[Axis], constants: Mapping[str, Scalar]) -> bool:
    """Whether a point meets them all; of many points, some that are spread over the space are tried."""
    varied = _varied(constraints, axes)
    points: Iterable[Point] = itertools.product(*(axis.values for axis in varied))
    if _is_sampled(varied):
        points = (halton_point(varied, index) for index in range(1, MOST_TRIED + 1))
    for values in points:
        names = {**constants, **{axis.name: value for axis, value in zip(varied, values, strict=True)}}
        if all(constraint.is_met(names) for constraint in constraints):
            return True
    return False


def _varied(constraints: Sequence[Constraint], axes: Sequence[Axis]) -> list[Axis]:
    used = {name for constraint in constraints for name in constraint.expression.names}
    return [axis for axis in axes if axis.name in used]


def _is_sampled(axes: Sequence[Axis]) -> bool:
    """Whether there are too many points to try them all."""
    return prod(len(axis.values) for axis in axes) > MOST_TRIED


def looked_at(constraints: Sequence[Constraint], axes: Sequence[Axis]) -> str:
    """The points that were tried, for messages."""
    is_sampled = _is_sampled(_varied(constraints, axes))
    return f"of {MOST_TRIED:,} that are spread over the space" if is_sampled else "of the space"
