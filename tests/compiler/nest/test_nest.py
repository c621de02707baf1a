"""Indices of accesses in parts of loops."""

from __future__ import annotations

from tilewright.compiler.nest.nest import Access, Affine

INDEX = Affine((("y", 2), ("r", 1), ("n", -3)), -1)  # 2 y + r - 3 n - 1


def test_loops_that_began_elsewhere_count_from_zero() -> None:
    assert INDEX.begun({"y": 4, "r": 5, "other": 100}) == Affine(INDEX.terms, -1 + 8 + 5)


def test_loops_that_stay_at_a_value_go() -> None:
    assert INDEX.fixed({"y": 4, "n": 2}) == Affine((("r", 1),), -1 + 8 - 6)


def test_an_access_is_moved_in_all_dimensions() -> None:
    access = Access("x", (Affine((("y", 1),)), INDEX), 7)
    assert access.begun({"y": 1}) == Access("x", (Affine((("y", 1),), 1), Affine(INDEX.terms, 1)), 7)
    assert access.fixed({"y": 1}) == Access("x", (Affine((), 1), Affine((("r", 1), ("n", -3)), 1)), 7)
