"""Biases whose scale is not that of the products, in each product: the real number stays, and a remark says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.importers.tflite.runs import random_inputs, require_close, run, translate
from tilewright.compiler.importers.remarks import remarks_of

BIAS = np.array([900, -400, 70, 2000], np.int32)
SCALES = np.array([0.02, 0.03, 0.01, 0.025])

ONES = {"StrideW": 1, "StrideH": 1}
PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, str, dict[str, Any]]] = {
    "CONV_2D": ((1, 3, 3, 4), (4, 1, 1, 4), 0, "Conv2DOptions", ONES),
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 4), (1, 1, 1, 4), 3, "DepthwiseConv2DOptions", {**ONES, "DepthMultiplier": 1}),
    "FULLY_CONNECTED": ((3, 4), (4, 4), 0, "FullyConnectedOptions", {}),
    "TRANSPOSE_CONV": ((1, 3, 3, 4), (4, 1, 1, 4), 0, "TransposeConvOptions", ONES),
}
"""Shapes of input and weights, along which of the weights' dimensions scales go, options."""


def product(kind: str, per_channel: bool, scales: Any, bias: Any = BIAS, axis: int = 0) -> tuple[TfliteFile, Tensor]:
    """A file of one product; `scales` are those of the bias."""
    shape, kernel, along, table, options = PRODUCTS[kind]
    file = TfliteFile()
    x, y = file.input("x", shape, 0.05, 3), file.tensor("y", shape, 0.7)
    values = np.random.default_rng(1).integers(-127, 128, kernel).astype(np.int8)
    w = file.constant("w", values, SCALES if per_channel else [0.02], axis=along)
    b = file.constant("b", bias, scales, axis=axis)
    if kind == "TRANSPOSE_CONV":
        file.operator(kind, [file.constant("size", np.int32(shape)), w, x, b], y, table, **options)
    else:
        file.operator(kind, [x, w, b], y, table, **options)
    return file, y


def real_result(kind: str, file: TfliteFile, x: Any, bias: Any) -> Any:
    w = next(tensor for tensor in file.tensors if tensor.name == "w").reals
    if kind == "DEPTHWISE_CONV_2D":
        return x * w.reshape(4) + bias
    return x @ w.reshape(4, 4).T + bias


@pytest.mark.parametrize("factor", [1.03, 1.5, 0.25])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_bias_of_another_scale_keeps_its_real_value(kind: str, per_channel: bool, factor: float) -> None:
    scales = 0.05 * factor * (SCALES if per_channel else np.array([0.02]))
    file, y = product(kind, per_channel, scales)
    model, inputs = translate(file, y), random_inputs(file, np.random.default_rng(2))
    steps = 0.05 * (SCALES if per_channel else 0.02)
    bias = np.rint(BIAS * factor) * steps  # rounded to the steps of the product
    require_close(y, run(model, inputs)["y"], real_result(kind, file, (inputs["x"] - 3.0) * 0.05, bias))
    ((about, text),) = remarks_of(model).items()
    assert about == f"operator 0 ({kind}): tensor 3 'b'"
    assert text == (
        f"its bias has the scale {scales[0]:.6g}, and input scale times weight scale is {np.ravel(steps)[0]:.6g}: "
        "converted to the latter; TFLite's kernels would take the integers as they are"
    )


@pytest.mark.parametrize("kind", PRODUCTS)
def test_one_scale_of_a_bias_beside_many_of_the_weights(kind: str) -> None:
    file, y = product(kind, True, [0.0008])
    inputs = random_inputs(file, np.random.default_rng(2))
    bias = np.rint(BIAS * 0.0008 / (0.05 * SCALES)) * 0.05 * SCALES
    require_close(y, run(translate(file, y), inputs)["y"], real_result(kind, file, (inputs["x"] - 3.0) * 0.05, bias))


@pytest.mark.parametrize("factor", [1.0, 1 + 1e-7, 1.004, 0.99])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_scale_that_differs_by_rounding_changes_nothing(kind: str, factor: float) -> None:
    """LiteRT's kernels are the oracle here, as both take the integers as they are."""
    file, y = product(kind, False, [0.05 * 0.02 * factor])
    model, inputs = translate(file, y), random_inputs(file, np.random.default_rng(2))
    expected = Litert(file.content(y)).run(inputs)["y"]
    assert np.abs(run(model, inputs)["y"].astype(int) - expected).max() <= 1
    assert not remarks_of(model)


@pytest.mark.parametrize("axis", [0, 1, 3])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_quantised_dimension_of_a_bias_may_be_that_of_the_weights(kind: str, axis: int) -> None:
    file, y = product(kind, True, 0.05 * SCALES, axis=axis)
    inputs = random_inputs(file, np.random.default_rng(2))
    bias = BIAS * 0.05 * SCALES
    require_close(y, run(translate(file, y), inputs)["y"], real_result(kind, file, (inputs["x"] - 3.0) * 0.05, bias))


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_a_bias_of_more_dimensions(kind: str) -> None:
    file, y = product(kind, False, [0.001], BIAS.reshape(1, 1, 1, 4))
    model, inputs = translate(file, y), random_inputs(file, np.random.default_rng(2))
    expected = Litert(file.content(y)).run(inputs)["y"]
    assert np.abs(run(model, inputs)["y"].astype(int) - expected).max() <= 1
