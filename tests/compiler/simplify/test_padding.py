"""Pad as a node: folded where the reader's own padding is the same, and refused with a reason elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import ModelBuilder, add_conv, random_inputs, rescaled, run_onnx
from tests.compiler.pipelines import distances, lowered, simplified
from tests.compiler.simplify.graphs import kinds
from tests.rings import slow_beyond
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


def padded_channels(channels: int, before: int, after: int, is_quantised: bool) -> onnx.ModelProto:
    """MaxPool → Pad of channels → Add → PRelu, as detectors have it where a block makes more channels."""
    made = ModelBuilder(np.random.default_rng(3))
    count = channels + before + after

    def quantised(x: str, scale: float, zero: int) -> str:
        name = f"q{len(made.nodes)}"
        meaning = [made.constant(f"{name}.scale", np.float32(scale)), made.constant(f"{name}.zero", np.int8(zero))]
        return made.node("DequantizeLinear", [made.node("QuantizeLinear", [x, *meaning]), *meaning])

    a, b = made.input("a", [1, channels, 12, 12]), made.input("b", [1, count, 6, 6])
    pool = made.node("MaxPool", [quantised(a, 0.05, -7)], kernel_shape=[2, 2], strides=[2, 2])
    pads = made.constant("pads", np.array([0, before, 0, 0, 0, after, 0, 0], np.int64))
    pad = made.node("Pad", [quantised(pool, 0.05, -7) if is_quantised else pool, pads])
    pad = quantised(pad, 0.05, -7) if is_quantised else pad
    total = quantised(made.node("Add", [pad, quantised(b, 0.07, 4)]), 0.09, 3)
    slopes = made.constant("slopes", made.rng.uniform(0.05, 0.4, (count, 1, 1)).astype(np.float32))
    made.output(quantised(made.node("PRelu", [total, slopes]), 0.08, -60))
    graph = onnx.helper.make_graph(made.nodes, "padded", made.inputs, made.outputs, made.initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("isa", ["base16", "tiny8"])
@pytest.mark.parametrize("is_quantised", [True, False])
@pytest.mark.parametrize(
    "sizes", slow_beyond(2, [(16, 0, 8), (12, 0, 4), (16, 16, 0), (24, 0, 24), (5, 0, 6), (16, 3, 5), (32, 0, 32)])
)
def test_padded_channels_stay_on_the_machine(sizes: tuple[int, int, int], is_quantised: bool, isa: str) -> None:
    """Parts of the sum are fused with parts of the function, each of which has the tables of its own channels."""
    model = padded_channels(*sizes, is_quantised)
    program = tilewright.compile(model.SerializeToString(), isa, effort=0)
    assert not program.host_nodes
    inputs = random_inputs(model, np.random.default_rng(1))
    apart = np.abs(program.run(inputs).outputs["result"] - run_onnx(model, inputs)["result"]) / 0.08
    assert apart.max() <= 1.01 and (apart > 0.5).mean() < 0.02
