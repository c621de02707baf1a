"""Tensors of fewer dimensions are stored as images, and their dimensions are found there."""

import pytest

from tilewright.compiler.graph.graph import stored_axis, stored_shape


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 5, 7), (2, 5, 7, 11)])
def test_finds_each_dimension_in_the_stored_shape(shape: tuple[int, ...]) -> None:
    stored = stored_shape(shape)
    assert [stored[stored_axis(axis, len(shape))] for axis in range(len(shape))] == list(shape)
