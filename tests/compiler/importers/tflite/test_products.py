"""Convolutions and matrix products against sums over real values, written out index by index."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.errors import CompileError

IMAGE = (2, 7, 6, 4)
SCALE = 0.02


def weights(file: TfliteFile, shape: tuple[int, ...], axis: int, rng: Generator, dtype: Any = np.int8) -> Tensor:
    """Random int8 weights with a scale for each index of `axis`, or uint8 ones with one zero point."""
    if dtype == np.uint8:
        return file.constant("weights", rng.integers(0, 256, shape).astype(np.uint8), [0.004], [121])
    scales = rng.uniform(0.002, 0.006, shape[axis])
    return file.constant("weights", rng.integers(-127, 128, shape).astype(np.int8), scales, axis=axis)


def bias(file: TfliteFile, of: Tensor, source: Tensor, count: int, rng: Generator) -> Tensor:
    scales = [float(np.float32(source.scales[0]) * np.float32(scale)) for scale in of.scales]
    return file.constant("bias", rng.integers(-9000, 9000, count).astype(np.int32), scales)


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The number of results and the padding in front, as TFLite's specification of SAME says."""
    count = (size + stride - 1) // stride
    total = max((count - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return count, total // 2


def windows(size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int],
            padding: int) -> tuple[tuple[int, int], tuple[int, int]]:  # fmt: skip
    """Number of results, and padding in front, by axis."""
    found = [same_padding(*of) if padding == 0 else ((of[0] - (of[1] - 1) * of[3] - 1) // of[2] + 1, 0)
             for of in zip(size, kernel, stride, dilation, strict=True)]  # fmt: skip
    return (found[0][0], found[1][0]), (found[0][1], found[1][1])


def convolved(x: NDArray[Any], w: NDArray[Any], counts: tuple[int, int], before: tuple[int, int],
              stride: tuple[int, int], dilation: tuple[int, int]) -> NDArray[Any]:  # fmt: skip
    """x [N, H, W, C], w [O, R, S, C / groups] → [N, Y, X, O]."""
    outputs, rows, columns, inputs = w.shape
    groups = x.shape[3] // inputs
    y = np.zeros((x.shape[0], *counts, outputs))
    for o, i, j, r, s in product(range(outputs), *map(range, counts), range(rows), range(columns)):
        h, v = i * stride[0] + r * dilation[0] - before[0], j * stride[1] + s * dilation[1] - before[1]
        if 0 <= h < x.shape[1] and 0 <= v < x.shape[2]:
            first = o // (outputs // groups) * inputs
            y[:, i, j, o] += x[:, h, v, first : first + inputs] @ w[o, r, s]
    return y


ACTIVATIONS = {
    0: lambda y: y,
    1: lambda y: np.maximum(y, 0),
    2: lambda y: np.clip(y, -1, 1),
    3: lambda y: np.clip(y, 0, 6),
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("padding", "kernel", "stride", "dilation", "groups"),
    [
        (0, (3, 3), (1, 1), (1, 1), 1),
        (0, (3, 2), (2, 2), (1, 1), 1),
        (0, (2, 3), (2, 1), (1, 2), 1),
        (1, (3, 3), (2, 1), (1, 1), 1),
        (1, (1, 1), (1, 1), (1, 1), 1),
        (0, (3, 3), (1, 1), (1, 1), 2),
    ],
)
def test_conv_2d(
    dtype: Any, activation: int, padding: int, kernel: Any, stride: Any, dilation: Any, groups: int
) -> None:
    rng = np.random.default_rng(1)
    file = TfliteFile()
    x = file.input("x", IMAGE, SCALE, 3, dtype)
    w = weights(file, (6, *kernel, IMAGE[3] // groups), 0, rng, dtype)
    b = bias(file, w, x, 6, rng)
    counts, before = windows(IMAGE[1:3], kernel, stride, dilation, padding)
    y = file.tensor("y", (IMAGE[0], *counts, 6), 0.05, 9, dtype)
    file.operator(
        "CONV_2D", [x, w, b], y, "Conv2DOptions", Padding=padding, StrideH=stride[0], StrideW=stride[1],
        DilationHFactor=dilation[0], DilationWFactor=dilation[1], FusedActivationFunction=activation,
    )  # fmt: skip
    inputs = random_inputs(file, rng)
    (image,) = reals(file, inputs)
    real = convolved(image, w.reals, counts, before, stride, dilation) + b.reals
    require_close(y, run(translate(file, y), inputs)["y"], ACTIVATIONS[activation](real))


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize(("padding", "stride"), [(0, (2, 2)), (1, (1, 1))])
def test_depthwise_conv_2d(multiplier: int, padding: int, stride: Any) -> None:
    rng = np.random.default_rng(2)
    file = TfliteFile()
    x = file.input("x", IMAGE, SCALE, -5)
    channels = IMAGE[3] * multiplier
    w = weights(file, (1, 3, 3, channels), 3, rng)
    b = bias(file, w, x, channels, rng)
    counts, before = windows(IMAGE[1:3], (3, 3), stride, (1, 1), padding)
    y = file.tensor("y", (IMAGE[0], *counts, channels), 0.03)
    file.operator(
        "DEPTHWISE_CONV_2D", [x, w, b], y, "DepthwiseConv2DOptions", Padding=padding, StrideH=stride[0],
        StrideW=stride[1], DepthMultiplier=multiplier,
    )  # fmt: skip
    inputs = random_inputs(file, rng)
    as_groups = w.reals[0].transpose(2, 0, 1)[..., None]
    (image,) = reals(file, inputs)
    real = convolved(image, as_groups, counts, before, stride, (1, 1)) + b.reals
    require_close(y, run(translate(file, y), inputs)["y"], real)


@pytest.mark.parametrize(
    ("padding", "kernel", "stride", "size"),
    [(0, (3, 3), (2, 2), (14, 12)), (0, (2, 2), (2, 2), (14, 12)), (1, (3, 3), (2, 2), (15, 13)),
     (0, (2, 1), (3, 2), (21, 12)), (1, (2, 2), (3, 3), (21, 17)), (0, (3, 3), (2, 2), (13, 11))],
)  # fmt: skip
def test_transpose_conv(padding: int, kernel: Any, stride: Any, size: Any) -> None:
    """Each element is added, times each weight, to the result at element · stride + tap - padding."""
    rng = np.random.default_rng(3)
    file = TfliteFile()
    x = file.input("x", IMAGE, SCALE, 3)
    w = weights(file, (5, *kernel, IMAGE[3]), 0, rng)
    b = bias(file, w, x, 5, rng)
    shape = file.constant("shape", np.array([IMAGE[0], *size, 5], np.int32))
    y = file.tensor("y", (IMAGE[0], *size, 5), 0.03)
    file.operator(
        "TRANSPOSE_CONV",
        [shape, w, x, b],
        y,
        "TransposeConvOptions",
        Padding=padding,
        StrideH=stride[0],
        StrideW=stride[1],
    )
    inputs = random_inputs(file, rng)
    before = [same_padding(size[a], kernel[a], stride[a], 1)[1] if padding == 0 else 0 for a in (0, 1)]
    (image,), real_weights = reals(file, inputs), w.reals
    real = np.zeros(y.shape)
    for i, j, r, s in product(range(IMAGE[1]), range(IMAGE[2]), range(kernel[0]), range(kernel[1])):
        h, v = i * stride[0] + r - before[0], j * stride[1] + s - before[1]
        if 0 <= h < size[0] and 0 <= v < size[1]:
            real[:, h, v] += image[:, i, j] @ real_weights[:, r, s].T
    require_close(y, run(translate(file, y), inputs)["y"], real + b.reals)


@pytest.mark.parametrize(("padding", "size"), [(0, (15, 12)), (1, (14, 13)), (1, (15, 16)), (1, (2, 2))])
def test_refuses_a_transpose_conv_of_another_size(padding: int, size: Any) -> None:
    file = TfliteFile()
    x = file.input("x", (1, 7, 6, 4), SCALE)
    w = file.constant("w", np.ones((5, 3, 3, 4), np.int8), [0.5])
    shape = file.constant("shape", np.array([1, *size, 5], np.int32))
    y = file.tensor("y", (1, *size, 5))
    file.operator("TRANSPOSE_CONV", [shape, w, x], y, "TransposeConvOptions", Padding=padding, StrideH=2, StrideW=2)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        f"net: operator 0 (TRANSPOSE_CONV): its result's shape is {[1, *size, 5]}, which no convolution takes to [7, 6]"
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("shape", "result", "keeps"),
    [((3, 20), (3, 7), False), ((2, 5, 20), (2, 5, 7), True), ((2, 2, 5, 4), (4, 7), False)],
)
def test_fully_connected(dtype: Any, shape: Any, result: Any, keeps: bool) -> None:
    rng = np.random.default_rng(4)
    file = TfliteFile()
    x = file.input("x", shape, SCALE, 3, dtype)
    w = weights(file, (7, 20), 0, rng, dtype)
    b = bias(file, w, x, 7, rng)
    y = file.tensor("y", result, 0.05, 4, dtype)
    file.operator(
        "FULLY_CONNECTED", [x, w, b], y, "FullyConnectedOptions", FusedActivationFunction=1, KeepNumDims=keeps
    )
    inputs = random_inputs(file, rng)
    (real,) = reals(file, inputs)
    expected = real.reshape(-1, 20) @ w.reals.T + b.reals
    require_close(y, run(translate(file, y), inputs)["y"], np.maximum(expected, 0).reshape(result))


@pytest.mark.parametrize(("keeps", "result"), [(False, (2, 5, 7)), (False, (1, 10, 7)), (True, (10, 7))])
def test_refuses_a_fully_connected_of_another_result(keeps: bool, result: tuple[int, ...]) -> None:
    file = TfliteFile()
    x = file.input("x", (2, 5, 20), SCALE)
    w = weights(file, (7, 20), 0, np.random.default_rng(0))
    y = file.tensor("y", result, 0.05)
    file.operator("FULLY_CONNECTED", [x, w, None], y, "FullyConnectedOptions", KeepNumDims=keeps)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    gives = [2, 5, 7] if keeps else [10, 7]
    assert str(error.value) == (
        f"net: operator 0 (FULLY_CONNECTED): gives {gives}; its result is {list(result)} in the file"
    )


def test_fully_connected_of_an_image_takes_its_elements_channels_last() -> None:
    rng = np.random.default_rng(5)
    file = TfliteFile()
    x = file.input("x", (1, 4, 5, 3), SCALE)
    pooled = file.tensor("pooled", (1, 4, 5, 3), SCALE)
    file.operator("MAX_POOL_2D", [x], pooled, "Pool2DOptions", StrideH=1, StrideW=1, FilterHeight=1, FilterWidth=1)
    w = weights(file, (7, 60), 0, rng)
    y = file.tensor("y", (1, 7), 0.05)
    file.operator("FULLY_CONNECTED", [pooled, w, None], y, "FullyConnectedOptions")
    inputs = random_inputs(file, rng)
    (real,) = reals(file, inputs)
    require_close(y, run(translate(file, y), inputs)["y"], real.reshape(1, 60) @ w.reals.T)


@pytest.mark.parametrize("adjoints", [(False, False), (True, False), (False, True), (True, True)])
def test_batch_matmul(adjoints: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(6)
    file = TfliteFile()
    shapes = [(2, 5, 6) if adjoints[0] else (2, 6, 5), (2, 4, 5) if adjoints[1] else (2, 5, 4)]
    x, z = file.input("x", shapes[0], SCALE, 2), file.input("z", shapes[1], SCALE, -7)
    y = file.tensor("y", (2, 6, 4), 0.1)
    file.operator("BATCH_MATMUL", [x, z], y, "BatchMatMulOptions", AdjX=adjoints[0], AdjY=adjoints[1])
    inputs = random_inputs(file, rng)
    a, b = (of.swapaxes(1, 2) if adjoint else of for of, adjoint in zip(reals(file, inputs), adjoints, strict=True))
    require_close(y, run(translate(file, y), inputs)["y"], a @ b)


# -- what is refused ---------------------------------------------------------------------------------------------------


def conv_file(**changes: Any) -> tuple[TfliteFile, Tensor]:
    """A convolution with one thing changed: `options`, or arguments of a tensor."""
    rng = np.random.default_rng(1)
    file = TfliteFile()
    x = file.input("x", (1, 4, 4, 3), changes.get("input_scale", SCALE))
    kernel = rng.integers(-127, 128, changes.get("kernel", (2, 1, 1, 3))).astype(changes.get("dtype", np.int8))
    w = file.constant("w", kernel, changes.get("scales", [0.5]), changes.get("zeros", ()), changes.get("axis", 0))
    b = file.constant(
        "b",
        np.full(changes.get("biases", 2), changes.get("bias", 0), np.int32),
        changes.get("bias_scales", [0.5 * SCALE]),
    )
    y = file.tensor("y", changes.get("result", (1, 4, 4, 2)))
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, **changes.get("options", {})}
    file.operator("CONV_2D", [x, w, b], y, changes.get("table", "Conv2DOptions"), **options)
    return file, y


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"StrideH": 0}}, "net: operator 0 (CONV_2D): stride_h = 0; expected a positive number"),
        ({"options": {"Padding": 7}}, "net: operator 0 (CONV_2D): padding = 7; expected SAME or VALID"),
        (
            {"options": {"FusedActivationFunction": 4}},
            "net: operator 0 (CONV_2D): the fused activation TANH has no lowering; expected NONE or RELU or RELU6 or "
            "RELU_N1_TO_1",
        ),
        (
            {"options": {"QuantizedBiasType": 9}},
            "net: operator 0 (CONV_2D): quantized_bias_type = 9 has no lowering; expected 0 or 2 or 4",
        ),
        ({"kernel": (2, 1, 1, 2)}, "net: operator 0 (CONV_2D): tensor 1 'w': has weights [2, 1, 1, 2] for 3 channels"),
        (
            {"scales": [0.5, 0.5, 0.25], "axis": 3},
            "net: operator 0 (CONV_2D): tensor 1 'w': has scales along dimension 3; expected 0, the results'",
        ),
        ({"biases": 3}, "net: operator 0 (CONV_2D): tensor 2 'b': is [3]; expected a list of 2 numbers"),
        (
            {"scales": [3e38], "input_scale": 3e38},
            "net: operator 0 (CONV_2D): tensor 2 'b': is a bias whose scale, input scale times weight scale, is beyond "
            "float32",
        ),
        ({"dtype": np.uint8}, "net: operator 0 (CONV_2D): tensor 1 'w': is uint8; expected int8, as the input"),
        (
            {"zeros": [-3]},
            "net: operator 0 (CONV_2D): tensor 1 'w': has weights with the zero point -3; expected 0, as all int8 "
            "weights have",
        ),
        (
            {"bias_scales": [1e12], "bias": 1},
            "net: operator 0 (CONV_2D): tensor 2 'b': is a bias with the scale 1e+12, of which int32 holds no multiple "
            "of input scale times weight scale, 0.01",
        ),
        (
            {"dtype": np.int16},
            "net: operator 0 (CONV_2D): tensor 1 'w': is int16; expected int8 or uint8",
        ),
        (
            {"result": (1, 4, 3, 2)},
            "net: operator 0 (CONV_2D): tensor 3 'y': its operands give [1, 2, 4, 4], channels after the batch; the "
            "file says [1, 2, 4, 3]",
        ),
    ],
)  # fmt: skip
def test_refuses_convolutions(changes: dict[str, Any], message: str) -> None:
    file, y = conv_file(**changes)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == message


def test_refuses_integer_weights_of_float_inputs() -> None:
    file = TfliteFile()
    x = file.input("x", (1, 4), None, dtype=np.float32)
    w = file.constant("w", np.ones((3, 4), np.int8), [0.5])
    y = file.tensor("y", (1, 3), None, dtype=np.float32)
    file.operator("FULLY_CONNECTED", [x, w, None], y, "FullyConnectedOptions")
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (FULLY_CONNECTED): tensor 1 'w': is int8, but the input float32: computing with float inputs "
        "and integer weights has no lowering; quantise the activations too"
    )
