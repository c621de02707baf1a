"""Arithmetic, activations and changes of scale against numpy on real values."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.errors import CompileError

BINARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "ADD": ("AddOptions", np.add),
    "SUB": ("SubOptions", np.subtract),
    "MUL": ("MulOptions", np.multiply),
    "MAXIMUM": ("MaximumMinimumOptions", np.maximum),
    "MINIMUM": ("MaximumMinimumOptions", np.minimum),
}

SHAPES = [
    ((1, 3, 4, 5), (1, 3, 4, 5)),
    ((1, 3, 4, 5), (1, 1, 1, 5)),
    ((1, 1, 1, 5), (1, 3, 4, 5)),
    ((1, 3, 4, 5), (4, 5)),
    ((1, 3, 4, 5), (5,)),
    ((2, 6, 5), (2, 1, 5)),
    ((2, 6), (2, 6)),
]


def image_first(file: TfliteFile, x: Tensor) -> Tensor:
    """A pool that changes nothing, behind which an image is stored channels first."""
    if len(x.shape) != 4:
        return x
    made = file.tensor("pooled", x.shape, x.scales[0], x.zeros[0], x.dtype)
    file.operator("MAX_POOL_2D", [x], made, "Pool2DOptions", StrideH=1, StrideW=1, FilterHeight=1, FilterWidth=1)
    return made


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("is_constant", [False, True])
def test_arithmetic(kind: str, shapes: Any, is_constant: bool) -> None:
    rng = np.random.default_rng(1)
    file = TfliteFile()
    table, function = BINARY[kind]
    keeps_scale = kind in ("MAXIMUM", "MINIMUM")
    of_b = (0.04, 3) if keeps_scale else (0.03, -9)
    a = file.input("a", shapes[0], 0.04, 3)
    values = rng.integers(-128, 128, shapes[1]).astype(np.int8)
    b = file.constant("b", values, [of_b[0]], [of_b[1]]) if is_constant else file.input("b", shapes[1], *of_b)
    inputs = random_inputs(file, rng)
    expected = function(a.real(inputs["a"]), b.real(values if is_constant else inputs["b"]))
    y = file.tensor("y", expected.shape, *(of_b if keeps_scale else (0.05, -11)))
    file.operator(kind, [image_first(file, a), b], y, table, **({} if keeps_scale else {"FusedActivationFunction": 1}))
    require_close(y, run(translate(file, y), inputs)["y"], expected if keeps_scale else np.maximum(expected, 0))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, tuple[str | None, dict[str, Any], Callable[[Any], Any], float]] = {
    "RELU": (None, {}, lambda x: np.maximum(x, 0), 0.05),
    "RELU6": (None, {}, lambda x: np.clip(x, 0, 6), 0.05),
    "RELU_N1_TO_1": (None, {}, lambda x: np.clip(x, -1, 1), 0.01),
    "LOGISTIC": (None, {}, sigmoid, 1 / 256),
    "TANH": (None, {}, np.tanh, 1 / 128),
    "HARD_SWISH": ("HardSwishOptions", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6, 0.05),
    "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 0.3}, lambda x: np.where(x < 0, np.float32(0.3) * x, x), 0.05),
    "ELU": (None, {}, lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), 0.05),
    "EXP": ("ExpOptions", {}, np.exp, 2.0),
    "ABS": ("AbsOptions", {}, np.abs, 0.05),
    "GELU": ("GeluOptions", {}, lambda x: x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2, 0.05),
}


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("shape", [(1, 16, 8, 2), (16, 16)])
def test_functions_of_one_element(kind: str, shape: Any) -> None:
    """All 256 values."""
    file = TfliteFile()
    table, options, function, scale = UNARY[kind]
    x = file.input("x", shape, 0.05, 3)
    y = file.tensor("y", shape, scale, 3)
    file.operator(kind, [x], y, table, **options)
    inputs = {"x": np.arange(-128, 128).astype(np.int8).reshape(shape)}
    require_close(y, run(translate(file, y), inputs)["y"], function(*reals(file, inputs)))


@pytest.mark.parametrize("slopes", [(1, 1, 5), (4, 5), (1, 3, 4, 5)])
def test_prelu(slopes: Any) -> None:
    rng = np.random.default_rng(3)
    file = TfliteFile()
    x = file.input("x", (1, 3, 4, 5), 0.05, 3)
    alpha = file.constant("alpha", rng.integers(-128, 128, slopes).astype(np.int8), [0.01], [2])
    y = file.tensor("y", x.shape, 0.06, 3)
    file.operator("PRELU", [x, alpha], y)
    inputs = random_inputs(file, rng)
    (real,) = reals(file, inputs)
    require_close(y, run(translate(file, y), inputs)["y"], np.where(real < 0, real * alpha.reals, real))


@pytest.mark.parametrize("shape", [(2, 10), (1, 3, 4, 5)])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_softmax(shape: Any, beta: float) -> None:
    rng = np.random.default_rng(4)
    file = TfliteFile()
    x = file.input("x", shape, 0.02, 3)
    y = file.tensor("y", shape, 1 / 256, -128)
    file.operator("SOFTMAX", [image_first(file, x)], y, "SoftmaxOptions", Beta=beta)
    inputs = random_inputs(file, rng)
    powers = np.exp(beta * reals(file, inputs)[0])
    require_close(y, run(translate(file, y), inputs)["y"], powers / powers.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(("source", "result"), [("f", "i"), ("i", "f"), ("i", "u"), ("u", "i"), ("i", "i")])
def test_changes_of_type(source: str, result: str) -> None:
    rng = np.random.default_rng(5)
    file = TfliteFile()
    of: dict[str, tuple[Any, ...]] = {"f": (None, 0, np.float32), "i": (0.05, 3, np.int8), "u": (0.04, 131, np.uint8)}
    x, y = file.input("x", (1, 3, 4, 5), *of[source]), file.tensor("y", (1, 3, 4, 5), *of[result])
    kind = "DEQUANTIZE" if result == "f" else "QUANTIZE"
    file.operator(kind, [x], y, "DequantizeOptions" if result == "f" else "QuantizeOptions")
    inputs = random_inputs(file, rng)
    require_close(y, run(translate(file, y), inputs)["y"], reals(file, inputs)[0])


@pytest.mark.parametrize(
    ("kind", "inputs", "table", "options", "message"),
    [
        ("RELU", 2, None, {}, "has 2 inputs; expected 1"),
        ("ADD", 1, "AddOptions", {}, "has 1 inputs; expected 2"),
        (
            "SOFTMAX", 1, "SoftmaxOptions", {"Beta": -1.0},
            "of 2 dimensions with beta = -1.0 has no lowering; expected beta > 0",
        ),
        ("LOGISTIC", 1, None, {}, "tensor 1 'y': has the scale 0.05; expected 0.00390625"),
        ("WHERE", 1, None, {}, None),
    ],
)  # fmt: skip
def test_refuses(kind: str, inputs: int, table: Any, options: Any, message: str | None) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator(kind, [x] * inputs, y, table, **options)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    if message is not None:
        assert str(error.value) == f"net: operator 0 ({kind}): {message}"
    else:
        assert str(error.value).startswith(f"net: operator 0 ({kind}): has no lowering; those that have: ABS, ADD, ")


def test_refuses_activations_of_other_bits() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3), dtype=np.int32), file.tensor("y", (2, 3), dtype=np.int32)
    file.operator("RELU", [x], y)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (RELU): tensor 0 'x': is int32; expected int8, uint8, int16 or uint16 (or float32)"
    )  # fmt: skip
