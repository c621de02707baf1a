"""Dimensions joined to four, and indices along them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.simplify.views import groups_of_four, joined_indices, joined_shape

SHAPE = (2, 3, 4, 5, 6)


def shape_of(**wishes: tuple[int, ...]) -> tuple[int, ...] | None:
    groups = groups_of_four(SHAPE, **wishes)
    return None if groups is None else joined_shape(SHAPE, groups)


def test_the_first_dimensions_are_joined() -> None:
    assert shape_of() == (6, 4, 5, 6)


@pytest.mark.parametrize("wanted", [(2, 12, 5, 6), (2, 3, 4, 30), (24, 30), (2, 360)])
def test_the_wanted_shape_comes_first(wanted: tuple[int, ...]) -> None:
    assert shape_of(wanted=wanted) == wanted


def test_an_axis_can_begin_a_dimension() -> None:
    assert shape_of(outermost=(1,)) == (2, 12, 5, 6)


def test_an_axis_can_stay_alone() -> None:
    assert shape_of(alone=(0, 1)) == (2, 3, 20, 6)
    assert shape_of(alone=(0, 2)) == (2, 3, 4, 30)
    assert shape_of(alone=(0, 2, 4)) is None


def test_indices_are_of_the_same_elements() -> None:
    x = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    groups = groups_of_four(SHAPE, wanted=(2, 12, 5, 6))
    assert groups is not None
    indices = joined_indices({1: (2, 0), 2: (3,), 4: (1, 1)}, SHAPE, groups)
    seen = x.reshape(2, 12, 5, 6).take(indices[1], 1).take(indices[3], 3)
    np.testing.assert_array_equal(seen.ravel(), x.take([2, 0], 1).take([3], 2).take([1, 1], 4).ravel())
