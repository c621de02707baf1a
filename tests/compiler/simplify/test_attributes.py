"""Constants in other shapes: their scales follow the dimension that they go along."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.graph.graph import Quantization
from tilewright.compiler.simplify.attributes import ConstantTensor, reshaped


def weights(shape: tuple[int, ...], axis: int | None) -> ConstantTensor:
    count = 1 if axis is None else shape[axis]
    scales = tuple(0.5 + number for number in range(count))
    return ConstantTensor(
        np.arange(np.prod(shape), dtype=np.int8).reshape(shape), Quantization(scales, tuple(range(count)), axis)
    )


@pytest.mark.parametrize(
    ("before", "axis", "after", "new_axis"),
    [((1, 3, 4), 1, (3, 1, 4), 0), ((2, 3), 1, (2, 1, 3), 2), ((2, 1, 3), 0, (1, 2, 3), 1)],
)
def test_scales_follow_their_dimension(
    before: tuple[int, ...], axis: int, after: tuple[int, ...], new_axis: int
) -> None:
    old = weights(before, axis)
    new = reshaped(old, after)
    assert new is not None and new.quantization is not None
    assert (new.values.shape, new.quantization.axis) == (after, new_axis)
    assert np.array_equal(new.real.reshape(-1), old.real.reshape(-1))


@pytest.mark.parametrize("after", [(6, 2), (12,), (3, 4)])
def test_scales_along_a_dimension_that_is_cut_or_joined_have_no_other_shape(after: tuple[int, ...]) -> None:
    assert reshaped(weights((4, 3), 0), after) is None


def test_one_scale_goes_with_any_shape() -> None:
    new = reshaped(weights((4, 3), None), (2, 6))
    assert new is not None and new.values.shape == (2, 6)
