"""Scales found for float constants: the same numbers again, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.compiler.simplify.attributes import ConstantTensor
from tilewright.compiler.simplify.found_scales import found_weights


def meant(found: ConstantTensor | None) -> NDArray[np.float32]:
    """As DequantizeLinear gives it, in single precision."""
    assert found is not None and found.quantization is not None and found.values.dtype == np.int8
    quantization, shape = found.quantization, [1] * found.values.ndim
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    zeros = np.array(quantization.zero_points).reshape(shape)
    return (found.values - zeros).astype(np.float32) * np.array(quantization.scales, np.float32).reshape(shape)


def integers(shape: Sequence[int], low: int = -128, high: int = 128) -> NDArray[np.float32]:
    return np.random.default_rng(5).integers(low, high, tuple(shape)).astype(np.float32)


@pytest.mark.parametrize("scale", [0.013, 1.0, 3e-7, 2.0**-9, 1e5])
@pytest.mark.parametrize(("low", "high"), [(-128, 128), (0, 256), (-3, 4), (-200, 50), (5, 6)])
def test_finds_the_integers_of_one_scale_exactly(scale: float, low: int, high: int) -> None:
    values = integers((8, 4, 3, 3), low, high) * np.float32(scale)
    np.testing.assert_array_equal(meant(found_weights(values, 0)), values)


def test_the_scale_is_the_largest() -> None:
    found = found_weights(np.array([[0.02, -0.04, 0.06]], np.float32), None)
    assert found is not None and found.quantization is not None
    assert found.values.tolist() == [[1, -2, 3]]
    assert found.quantization.scale == np.float32(0.02)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_finds_a_scale_for_each_index_of_an_axis(axis: int) -> None:
    values = integers((5, 6, 7))
    scales = np.random.default_rng(1).uniform(0.001, 0.1, values.shape[axis]).astype(np.float32)
    values *= scales.reshape([-1 if at == axis else 1 for at in range(3)])
    found = found_weights(values, axis)
    np.testing.assert_array_equal(meant(found), values)
    assert found_weights(values, (axis + 1) % 3) is None
    assert found_weights(values, None) is None


def test_a_few_roundings_are_no_matter() -> None:
    values = integers((6, 9)) * np.float32(0.013) * np.float32(0.7) / np.float32(3)
    np.testing.assert_allclose(meant(found_weights(values, None)), values, rtol=2**-22)


def test_values_of_half_precision_were_rounded_to_it() -> None:
    exact = integers((6, 9)) * np.float32(0.013)
    values = exact.astype(np.float16).astype(np.float32)
    found = meant(found_weights(values, None))
    np.testing.assert_allclose(found, values, rtol=2**-11)
    np.testing.assert_allclose(found, exact, rtol=2**-10)


def test_zeros_have_any_scale() -> None:
    np.testing.assert_array_equal(meant(found_weights(np.zeros((2, 3), np.float32), 0)), np.zeros((2, 3)))


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(2).normal(size=(4, 30)).astype(np.float32),
        integers((4, 90), -200, 201) * np.float32(0.01),
        np.append(integers((1, 90)), np.float32(0.5)).reshape(1, -1) * np.float32(0.01),
        np.array([[1, 2, np.nan]], np.float32),
        np.array([[1, 2, np.inf]], np.float32),
    ],
    ids=["normal", "nine bits", "half a step", "nan", "infinity"],
)
def test_finds_nothing_in_other_values(values: NDArray[np.float32]) -> None:
    assert found_weights(values, 0) is None
