"""Pad as a node: folded where the reader's own padding is the same, and refused with a reason elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tests.compiler.pipelines import distances, lowered, simplified
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.interpreter import run_nests

SCALE = 0.1
AROUND = [0, 0, 1, 2, 0, 0, 0, 1]  # top 1, left 2, right 1
WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2]}


def padded(
    reader: str, activation: type, place: str = "between", value: float = 0.0, zero: int | None = None,
    around: Sequence[int] = AROUND, mode: str = "constant", shape: Sequence[int] = (1, 6, 9, 9), **window: Any,
) -> onnx.ModelProto:  # fmt: skip
    """A Pad and what reads it. `place`: between quantised tensors, right before the reader, or first of all."""
    builder = ModelBuilder(np.random.default_rng(3), activation=activation)
    x = builder.input("x", shape)
    zero = builder.random_zero() if zero is None else zero
    if place != "first":
        x = builder.quantize(x, SCALE, zero, name="x.q")
    constants = [builder.constant("pads", np.array(around, np.int64)), builder.constant("value", np.float32(value))]
    x = builder.node("Pad", [x, *constants], name="pad", mode=mode)
    if place != "bare":
        x = builder.quantize(x, SCALE, zero, name="pad.q")
    if reader == "Conv":
        builder.output(add_conv(builder, x, shape[1], 10, 3, stride=2, **window))
    elif reader == "Relu":
        builder.output(builder.quantize(builder.node("Relu", [x], name="reader"), SCALE, zero, name="y.q"))
    else:
        window |= {} if reader.startswith("Global") else WINDOW
        y = builder.node(reader, [x], name="reader", **window)
        builder.output(builder.quantize(y, SCALE if reader == "MaxPool" else 0.083, zero, name="y.q"))
    return rescaled(builder.build()) if reader == "Conv" and place == "bare" else builder.build()


def least(activation: type) -> int:
    return int(np.iinfo(activation).min)


def require_same(model: onnx.ModelProto) -> None:
    assert "pad" not in kinds(simplified(model))
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=12)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.998


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("place", ["between", "bare", "first"])
@pytest.mark.parametrize("window", [{}, {"pads": [1, 0, 0, 1]}])
def test_padding_goes_into_a_convolution(place: str, window: dict[str, Any], activation: type) -> None:
    require_same(padded("Conv", activation, place, **window))


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("place", ["between", "bare", "first"])
@pytest.mark.parametrize("window", [{}, {"ceil_mode": 1}, {"pads": [0, 0, 1, 1], "count_include_pad": 1}])
def test_padding_goes_into_an_average(place: str, window: dict[str, Any], activation: type) -> None:
    require_same(padded("AveragePool", activation, place, **window))


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("place", ["between", "bare", "first"])
@pytest.mark.parametrize("window", [{}, {"pads": [1, 1, 0, 0]}])
def test_padding_goes_into_a_maximum_where_zero_is_the_least(
    place: str, window: dict[str, Any], activation: type
) -> None:
    require_same(padded("MaxPool", activation, place, zero=least(activation), **window))


def test_padding_with_the_least_value_goes_into_a_maximum() -> None:
    require_same(padded("MaxPool", np.int8, "between", value=-1000.0))


def test_no_padding_is_nothing() -> None:
    require_same(padded("Relu", np.int8, around=[0] * 8))


def test_one_spatial_dimension() -> None:
    require_same(padded("GlobalAveragePool", np.int8, around=[0, 0, 2, 0, 0, 1], shape=(1, 6, 9)))


@pytest.mark.parametrize(
    "given",
    [
        {"reader": "Conv", "value": 0.5},
        {"reader": "MaxPool"},
        {"reader": "AveragePool", "pads": [1, 1, 0, 0]},
        {"reader": "Relu"},
    ],
)
def test_other_padding_stays(given: dict[str, Any]) -> None:
    model = padded(activation=np.int8, zero=3, **given)
    assert "pad" in kinds(simplified(model))
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=12)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.998


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"reader": "Relu", "around": [1] * 10, "shape": (2, 2, 3, 4, 4)},
            "node 'pad' (Pad): pads 5 of its operand's 5 dimensions; expected so few that the others can be joined to "
            "4",
        ),
    ],
)
def test_other_padding_is_refused(given: dict[str, Any], message: str) -> None:
    model = padded(activation=np.int8, zero=3, **given)
    with pytest.raises(CompileError) as refused:
        simplified(model)
    assert str(refused.value) == message
