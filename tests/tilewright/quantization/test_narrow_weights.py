"""Limits of weights that get few steps: where the sum of squared differences is least, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tilewright.isa.language.numeric import parse_integer_type
from tilewright.quantization.narrow_weights import limit_weights, product_weights

INT4 = parse_integer_type("int4")


def limited(values: np.ndarray, axis: int | None) -> np.ndarray:
    graph = helper.make_graph([], "weights", [], [], [numpy_helper.from_array(values.astype(np.float32), "w")])
    (made,) = limit_weights(helper.make_model(graph), [("w", axis)], INT4).graph.initializer
    return numpy_helper.to_array(made)


def test_one_large_weight_among_many_is_limited_in_its_channel_alone() -> None:
    usual = np.tile(np.linspace(-1, 1, 16), 20)
    made = limited(np.stack([np.append(usual, 2.0), np.append(usual, 1.0)]), 0)
    assert made[0, -1] < 1.6
    assert made[1, -1] > 0.9


def differences(limits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum of squares for each channel, with a step of a fifteenth of the range that the limited weights have."""
    steps = 2 * np.abs(limits).max(axis=1, keepdims=True) / 15
    return ((np.clip(np.rint(limits / steps), -8, 7) * steps - values) ** 2).sum(axis=1)


def test_weights_are_nearer_than_without_a_limit() -> None:
    """With the tails of a t distribution. A channel may lose: what is limited lies half way between two steps."""
    values = np.random.default_rng(0).standard_t(4, (64, 144))
    with_limits, without = differences(limited(values, 0), values), differences(values, values)
    assert np.median(with_limits / without) < 0.9
    assert with_limits.sum() < 0.9 * without.sum()


def test_zeros_stay() -> None:
    assert not limited(np.zeros((3, 4)), 1).any()


@pytest.mark.parametrize(
    ("operator", "attributes", "shape", "axis"),
    [
        ("Conv", {}, (8, 4, 3, 3), 0),
        ("ConvTranspose", {}, (4, 8, 2, 2), 1),
        ("ConvTranspose", {"group": 2}, (4, 8, 2, 2), None),
        ("Gemm", {}, (4, 8), 1),
        ("Gemm", {"transB": 1}, (8, 4), 0),
        ("MatMul", {}, (4, 8), 1),
        ("MatMul", {}, (2, 4, 8), None),
    ],
)
def test_channels_are_those_of_the_results(
    operator: str, attributes: dict[str, Any], shape: tuple[int, ...], axis: int | None
) -> None:
    node = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
    constants = {"w": numpy_helper.from_array(np.zeros(shape, np.float32), "w")}
    assert list(product_weights([node], constants)) == [("w", axis)]
