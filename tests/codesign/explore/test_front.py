"""The front, against the definition; sequences that are spread."""

from __future__ import annotations

import math
import random

import pytest

from tilewright.codesign.explore.expression import Expression
from tilewright.codesign.explore.front import dominates, front
from tilewright.codesign.explore.halton import radical_inverse


def test_is_all_that_nothing_dominates() -> None:
    draw = random.Random(1)
    for _ in range(50):
        points = [(n, tuple(float(draw.randrange(5)) for _ in range(3))) for n in range(20)]
        expected = {n for n, own in points if not any(dominates(other, own) for _, other in points)}
        assert set(front(points)) == expected


def test_equal_points_do_not_dominate_each_other() -> None:
    assert front([("a", (1.0, 2.0)), ("b", (1.0, 2.0))]) == ["a", "b"]


def test_digits_are_mirrored_at_the_point() -> None:
    assert [radical_inverse(n, 2) for n in (1, 2, 3, 6)] == [0.5, 0.25, 0.75, 0.375]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("memories.act.kib + 2 * lanes <= 400", True),
        ("1 < lanes < 16 and not lanes == 4", True),
        ("max(lanes, memories.act.kib) / 2", 32.0),
        ("rounding == 'even' or lanes > 100", True),
        ("-lanes // 3 % 5", 2),
    ],
)
def test_constraints_are_python_arithmetic(text: str, value: object) -> None:
    names = {"memories.act.kib": 64, "lanes": 8, "rounding": "even"}
    assert Expression(text).value(names) == value


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("area_mm2 <= 2", 0.0),
        ("area_mm2 <= 1", 0.5),
        ("1 < area_mm2 < 1.25", 0.25),
        ("area_mm2 <= 1 and lanes == 5", 3.5),
        ("area_mm2 <= 1 or lanes == 9", 0.5),
        ("not area_mm2 > 1", math.inf),
        ("rounding == 'up'", math.inf),
    ],
)
def test_a_gap_is_what_the_sides_differ_by(text: str, gap: float) -> None:
    assert Expression(text).gap({"area_mm2": 1.5, "lanes": 8, "rounding": "even"}) == gap
