"""What loses too much is named: by its own range, by what it does, or step after step."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

import tilewright
from tests.tilewright.quantization.float_networks import FloatBuilder
from tests.tilewright.quantization.recurrent.test_on_machine import stream
from tilewright.compiler.errors import CompileError
from tilewright.quantization.losses import AccuracyLoss, losses
from tilewright.quantization.noise import LayerNoise
from tilewright.quantization.steps import Steps


def layer(tensor: str, ratio: float | None, drop: float | None, *operands: str, own: float | None = None) -> LayerNoise:
    return LayerNoise(tensor, (tensor,), ("Mul",), tensor, operands, ratio, drop, own)


def test_a_range_costs_what_would_be_gained_without_it() -> None:
    """Three quarters of the noise are its own: without them the ratio is 6.02 dB higher."""
    own = 20 - 10 * math.log10(0.75)
    assert math.isclose(layer("y", 20.0, 10.0, "x", own=own).range_costs_db, 10 * math.log10(4), abs_tol=1e-9)
    assert layer("y", 20.0, 10.0, "x", own=20.0).range_costs_db == 10.0
    assert layer("y", 20.0, 2.0, "x", own=20.0).range_costs_db == 2.0
    assert layer("y", 20.0, 10.0, "x").range_costs_db == 0
    assert layer("y", None, None).range_costs_db == 0


def test_rounding_saturates() -> None:
    steps = Steps(0.5, -1, -128, 127)
    np.testing.assert_array_equal(steps.rounded(np.array([0.2, 0.3, 100.0, -100.0])), [0.0, 0.5, 64.0, -63.5])


def test_layers_are_named_the_worst_first() -> None:
    found = losses([layer("x", 40.0, None), layer("y", 30.0, 6.5, "x"), layer("z", 20.0, 10.0, "y")], {})
    assert found == (AccuracyLoss("z", 10.0), AccuracyLoss("y", 6.5))


def test_a_state_is_compared_with_what_comes_into_its_recurrence() -> None:
    """Each step loses 3 dB, which no step is blamed for: together they lose 9."""
    steps = [layer(f"h{n}", 37.0 - 3 * n, 3.0, "x", *([f"h{n - 1}"] if n else [])) for n in range(3)]
    alike = {"cell/step/hidden": ("h0", "h1", "h2")}
    assert losses([layer("x", 40.0, None), *steps], alike) == (AccuracyLoss("cell/step/hidden", 9.0),)
    assert losses([layer("x", 40.0, None), *steps], {"cell/step/gates": ("h0", "h1", "h2")}) == ()


def test_states_of_a_long_recurrence_are_named() -> None:
    rng = np.random.default_rng(3)
    data = {"X": np.tanh(rng.normal(size=(8, 24, 1, 24))), "h": np.zeros((8, 1, 1, 32)), "c": np.zeros((8, 1, 1, 32))}
    quantized = tilewright.quantize(
        stream("LSTM", 24), {name: value.astype(np.float32) for name, value in data.items()}
    )
    assert {loss.name for loss in quantized.losses} & {"cell/step/cell", "cell/step/hidden"}


def masked(least: float) -> onnx.ModelProto:
    """Scores whose range a number stretches that is no mask."""
    b = FloatBuilder()
    scores = b.node("MatMul", "scores", b.input("x", (1, 8, 16)), b.normal("weights", 16, 8, scale=0.3))
    mask = np.where(np.tril(np.ones((8, 8))) > 0, 0, least).astype(np.float32)
    return b.build(b.node("Softmax", "softmax", b.node("Add", "masked", scores, b.constant("mask", mask)), axis=-1))


def test_a_stretched_range_is_warned_of_or_refused() -> None:
    data = {"x": np.random.default_rng(0).normal(size=(8, 8, 16)).astype(np.float32)}
    assert tilewright.quantize(masked(-1e4), data, strict=True).warnings == ()
    (warning,) = tilewright.quantize(masked(-900.0), data).warnings
    assert warning.startswith("masked (Add) loses ") and warning.endswith(" dB by its own range at softmax")
    with pytest.raises(
        CompileError, match="masked .Add. loses .* dB by its own range at softmax; expected at most 6 dB"
    ):
        tilewright.quantize(masked(-900.0), data, strict=True)
