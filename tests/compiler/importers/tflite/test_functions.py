"""Functions, comparisons and choices against numpy on real values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.importers.remarks import remarks_of

UNARY: dict[str, tuple[str | None, Callable[[Any], Any], float]] = {
    "CEIL": (None, np.ceil, 0.05),
    "COS": ("CosOptions", np.cos, 1 / 128),
    "FLOOR": (None, np.floor, 0.05),
    "NEG": ("NegOptions", np.negative, 0.05),
    "RELU_0_TO_1": (None, lambda x: np.clip(x, 0, 1), 1 / 128),
    "ROUND": (None, np.rint, 0.05),
    "SIGN": ("SignOptions", np.sign, 1 / 64),
    "SIN": (None, np.sin, 1 / 128),
    "SQUARE": ("SquareOptions", np.square, 0.5),
}


@pytest.mark.parametrize("kind", UNARY)
def test_a_function_of_one(kind: str) -> None:
    table, function, scale = UNARY[kind]
    file = TfliteFile()
    x, y = file.input("x", (1, 4, 5, 3), 0.0491, 3), file.tensor("y", (1, 4, 5, 3), scale, -2)
    file.operator(kind, [x], y, table)
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], function(*reals(file, inputs)))


@pytest.mark.parametrize(
    ("kind", "function", "scale"),
    [("LOG", np.log, 0.05), ("SQRT", np.sqrt, 0.05), ("RSQRT", lambda x: x**-0.5, 0.05)],
)
def test_a_function_of_positive_numbers(kind: str, function: Callable[[Any], Any], scale: float) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 100), 0.05, -128), file.tensor("y", (2, 100), scale)
    file.operator(kind, [x], y)
    inputs = {"x": np.arange(-100, 100, dtype=np.int8).reshape(2, 100)}
    require_close(y, run(translate(file, y), inputs)["y"], function(*reals(file, inputs)))


BINARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "EQUAL": ("EqualOptions", np.equal),
    "NOT_EQUAL": ("NotEqualOptions", np.not_equal),
    "GREATER": ("GreaterOptions", np.greater),
    "GREATER_EQUAL": ("GreaterEqualOptions", np.greater_equal),
    "LESS": ("LessOptions", np.less),
    "LESS_EQUAL": ("LessEqualOptions", np.less_equal),
}


@pytest.mark.parametrize("kind", BINARY)
def test_a_comparison(kind: str) -> None:
    table, function = BINARY[kind]
    file = TfliteFile()
    a, b = file.input("a", (1, 4, 5, 3), 0.5), file.input("b", (3,), 0.5)
    y = file.tensor("y", (1, 4, 5, 3), None, dtype=np.bool_)
    file.operator(kind, [a, b], y, table)
    inputs = {
        name: (value // 32).astype(np.int8) for name, value in random_inputs(file, np.random.default_rng(1)).items()
    }
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], function(*reals(file, inputs)))


def test_a_choice() -> None:
    file = TfliteFile()
    a, b = file.input("a", (1, 4, 5, 3), 0.5), file.input("b", (1, 4, 5, 3), 0.5)
    is_less = file.tensor("less", (1, 4, 5, 3), None, dtype=np.bool_)
    y = file.tensor("y", (1, 4, 5, 3), 0.5)
    file.operator("LESS", [a, b], is_less, "LessOptions")
    file.operator("SELECT_V2", [is_less, a, b], y, "SelectV2Options")
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], np.minimum(*reals(file, inputs)))


def test_division() -> None:
    file = TfliteFile()
    a, b = file.input("a", (2, 5), None, dtype=np.float32), file.constant("b", np.float32([1, 2, 3, 4, 5]))
    y = file.tensor("y", (2, 5), None, dtype=np.float32)
    file.operator("DIV", [a, b], y, "DivOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], inputs["a"] / np.arange(1, 6))


def test_a_squared_difference() -> None:
    file = TfliteFile()
    a, b = file.input("a", (1, 4, 5, 3), 0.05, 3), file.input("b", (1, 4, 5, 3), 0.05, 3)
    y = file.tensor("y", (1, 4, 5, 3), 0.7, -128)
    file.operator("SQUARED_DIFFERENCE", [a, b], y, "SquaredDifferenceOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    x, z = reals(file, inputs)
    require_close(y, run(translate(file, y), inputs)["y"], (x - z) ** 2)


def norm(x: Any) -> Any:
    return x / np.sqrt((x**2).sum(-1, keepdims=True))


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize(
    ("kind", "table", "function", "scale"),
    [("L2_NORMALIZATION", "L2NormOptions", norm, 1 / 128), ("LOG_SOFTMAX", "LogSoftmaxOptions", log_softmax, 0.1)],
)
@pytest.mark.parametrize("shape", [(2, 6), (1, 3, 4, 6)])
def test_over_the_last_dimension(
    kind: str, table: str, function: Callable[[Any], Any], scale: float, shape: Any
) -> None:
    file = TfliteFile()
    x, y = file.input("x", shape, 0.03, 5), file.tensor("y", shape, scale, 3)
    file.operator(kind, [x], y, table)
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], function(*reals(file, inputs)))


def test_over_channels_on_each_side() -> None:
    file = TfliteFile()
    x = file.input("x", (1, 3, 4, 6), None, dtype=np.float32)
    y = file.tensor("y", (1, 3, 4, 6), None, dtype=np.float32)
    options = {"Radius": 2, "Bias": 1.0, "Alpha": 0.1, "Beta": 0.5}
    file.operator("LOCAL_RESPONSE_NORMALIZATION", [x], y, "LocalResponseNormalizationOptions", **options)
    inputs = random_inputs(file, np.random.default_rng(1))
    squares = np.pad(inputs["x"].astype(np.float64) ** 2, [(0, 0)] * 3 + [(2, 2)])
    total = sum(squares[..., i : i + 6] for i in range(5))
    require_close(y, run(translate(file, y), inputs)["y"], inputs["x"] / np.sqrt(1 + 0.1 * total))


def test_indices_are_cast_to_quantised_numbers() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3), None, dtype=np.int32), file.tensor("y", (2, 3), 1.0)
    file.operator("CAST", [x], y, "CastOptions")
    inputs = {"x": np.arange(6, dtype=np.int32).reshape(2, 3)}
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], inputs["x"])


def test_adds_many() -> None:
    file = TfliteFile()
    terms = [file.input(name, (2, 3), None, dtype=np.float32) for name in "abc"]
    y = file.tensor("y", (2, 3), None, dtype=np.float32)
    file.operator("ADD_N", terms, y, "AddNOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], sum(inputs.values()))


NUMBERS = np.array([[3.0, -7.6, 100.7, 300.2]])
CASTS: list[tuple[Any, float | None, Any, float | None]] = [
    (np.uint8, None, np.float32, None), (np.int8, None, np.float32, None), (np.int8, 0.05, np.float32, None),
    (np.uint8, None, np.int8, None), (np.int8, 0.05, np.int32, None), (np.int32, None, np.int8, 0.05),
    (np.float32, None, np.uint8, None), (np.float32, None, np.int32, None), (np.int8, None, np.int8, None),
    (np.int64, None, np.float32, None), (np.float32, None, np.bool_, None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "scale", "result", "result_scale"), CASTS)
@pytest.mark.parametrize("is_constant", [False, True])
def test_casts_take_the_numbers_of_a_tensor(
    source: Any, scale: float | None, result: Any, result_scale: float | None, is_constant: bool
) -> None:
    """As LiteRT does: also where a scale says what else they mean."""
    held = np.clip(NUMBERS, *((np.iinfo(source).min, np.iinfo(source).max) if source != np.float32 else (-400, 400)))
    numbers = held.astype(source)
    file = TfliteFile()
    x = file.input("x", (1, 4), scale, dtype=source)
    of = file.constant("c", numbers, [] if scale is None else [scale]) if is_constant else x
    y = file.tensor("y", (1, 4), result_scale, dtype=result)
    z = file.tensor("z", (1, 4), scale, dtype=source)
    file.operator("RESHAPE", [x], z, "ReshapeOptions", NewShape=[1, 4])
    file.operator("CAST", [of], y, "CastOptions")
    expected = Litert(file.content(y, z)).run({"x": numbers})["y"]
    np.testing.assert_array_equal(run(translate(file, y, z), {"x": numbers})["y"], expected)


def test_options_of_another_operator_are_taken_as_left_out() -> None:
    """LiteRT asks for its own kind of options, and finds none."""
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("ADD", [x, x], y, "StridedSliceOptions", BeginMask=1, ShrinkAxisMask=1)
    model, inputs = translate(file, y), random_inputs(file, np.random.default_rng(1))
    np.testing.assert_array_equal(run(model, inputs)["y"], Litert(file.content(y)).run(inputs)["y"])
    assert remarks_of(model) == {
        "operator 0 (ADD)": "its options are StridedSliceOptions, which TFLite does not read there: taken as left out"
    }


@pytest.mark.parametrize("zero_point", [0, 5])
def test_a_row_of_zeros_has_no_norm(zero_point: int) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 6), 0.03, zero_point), file.tensor("y", (2, 6), 1 / 128)
    file.operator("L2_NORMALIZATION", [x], y, "L2NormOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    inputs["x"][0] = zero_point
    came, expected = run(translate(file, y), inputs)["y"], Litert(file.content(y)).run(inputs)["y"]
    assert np.abs(came.astype(int) - expected).max() <= 1
    assert not came[0].any()
