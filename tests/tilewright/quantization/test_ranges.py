"""Ranges of tensors: the extremes, and what percentiles keep of a known distribution."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.quantization.ranges import HISTOGRAM_BINS, Range, find_ranges, float_tensors
from tilewright.quantization.samples import Samples


def doubled() -> onnx.ModelProto:
    """x [1, 1000] and 2 · x."""
    b = FloatBuilder()
    return b.build(b.node("Mul", "twice", b.input("x", (1, 1000)), b.constant("two", np.array(2.0))))


def ranges(values: np.ndarray, method: str, percentile: float = 99.0) -> Mapping[str, Range]:
    data = Samples({"x": values.astype(np.float32).reshape(-1, 1, 1000)})
    return find_ranges(doubled(), data, method, percentile, "it")


def test_minmax_is_over_all_samples() -> None:
    values = np.random.default_rng(0).standard_normal((5, 1000))
    found = ranges(values, "minmax")
    assert found["x"] == Range(np.float32(values.min()), np.float32(values.max()))
    assert found["twice.out"] == Range(np.float32(2 * values.min()), np.float32(2 * values.max()))


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_a_percentile_keeps_that_part_of_the_absolute_values(percentile: float) -> None:
    values = np.random.default_rng(1).standard_normal((20, 1000))
    bin_width = np.abs(values).max() / HISTOGRAM_BINS["percentile"]
    found = ranges(values, "percentile", percentile)["x"]
    assert found.low == -found.high
    assert np.mean(np.abs(values) < found.high + bin_width) >= percentile / 100
    assert np.mean(np.abs(values) < found.high - bin_width) <= percentile / 100


def test_a_percentile_does_not_widen_what_is_positive() -> None:
    values = np.random.default_rng(2).uniform(0.5, 1.5, (4, 1000))
    found = ranges(values, "percentile")["x"]
    assert found.low == np.float32(values.min())
    assert found.high < values.max()


def test_entropy_cuts_off_a_single_far_value() -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (4, 1000))
    values[2, 7] = 3.0
    found = ranges(values, "entropy")["x"]
    assert 0.9 < found.high < 2.0


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_a_constant_tensor_is_its_own_range(method: str) -> None:
    found = ranges(np.full((2, 1000), 0.25), method)
    assert found["x"] == Range(np.float32(0.25), np.float32(0.25))


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_later_samples_may_be_much_larger(method: str) -> None:
    """A histogram that grew from the first sample's bins would need a billion of them."""
    values = np.random.default_rng(4).standard_normal((2, 1000))
    values[0] *= 1e-6
    assert ranges(values, method)["x"].high > 0.1


@pytest.mark.parametrize(("method", "size"), [("percentile", 1e-45), ("entropy", 1e-45), ("entropy", 3e38)])
def test_a_range_that_cannot_be_divided_stays_whole(method: str, size: float) -> None:
    """Numbers next to 0, and a range that is wider than the largest float32."""
    values = np.zeros(1000)
    values[:2] = -size, size
    data = Samples({"x": values.astype(np.float32).reshape(-1, 1, 1000)})
    b = FloatBuilder()
    same = b.build(b.node("Relu", "same", b.input("x", (1, 1000))))
    found = find_ranges(same, data, method, 99.0, "it")["x"]
    assert (found.low, found.high) == (np.float32(-size), np.float32(size))


def test_only_float32_tensors_have_ranges() -> None:
    b = FloatBuilder()
    x = b.input("x", (1, 4))
    b.node("Cast", "count", x, to=TensorProto.INT32)
    assert float_tensors(b.build(b.node("Relu", "relu", x))) == ["x", "relu.out"]
