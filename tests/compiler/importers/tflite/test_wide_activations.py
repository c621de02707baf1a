"""TFLite's int16×8 files: activations of int16, weights of int8, biases of int64."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import TfliteFile
from tilewright.compiler.errors import CompileError

X_SCALE, Y_SCALE, Z_SCALE = 2.0**-10, 2.0**-13, 2.0**-15

KERNEL = np.random.default_rng(1).integers(-127, 128, (16, 1, 1, 24)).astype(np.int8)
BIAS = np.random.default_rng(2).integers(-400_000, 400_000, 16)
SCALES = np.float32(np.random.default_rng(3).uniform(0.0001, 0.0002, 16))


def wide_file(bias: NDArray[np.int64] = BIAS) -> bytes:
    """TANH(CONV_2D(x)), a kernel of one pixel."""
    file = TfliteFile()
    x = file.input("x", (1, 6, 6, 24), X_SCALE, 0, np.int16)
    w = file.constant("w", KERNEL, SCALES)
    b = file.constant("b", bias, np.float32(X_SCALE) * SCALES)
    y = file.tensor("y", (1, 6, 6, 16), Y_SCALE, 0, np.int16)
    z = file.tensor("z", (1, 6, 6, 16), Z_SCALE, 0, np.int16)
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "QuantizedBiasType": 4}
    file.operator("CONV_2D", [x, w, b], y, "Conv2DOptions", **options)
    file.operator("TANH", [y], z)
    return file.content(z)


def test_results_are_those_of_its_arithmetic() -> None:
    x = np.random.default_rng(4).integers(-(1 << 15), 1 << 15, (1, 6, 6, 24)).astype(np.int16)
    program = tilewright.compile(wide_file(), "base16-a16")
    assert not program.host_nodes
    found = program.run({"x": x}).outputs["z"]

    sums = x.astype(np.int64) @ KERNEL.reshape(16, 24).T.astype(np.int64) + BIAS
    y = np.clip(np.rint(sums * (X_SCALE * SCALES.astype(np.float64)) / Y_SCALE), -(1 << 15), (1 << 15) - 1)
    z = np.clip(np.rint(np.tanh(y * Y_SCALE) / Z_SCALE), -(1 << 15), (1 << 15) - 1)
    assert found.dtype == np.int16 and len(np.unique(y)) > 500
    assert np.abs(found - z).max() <= 2  # a step of y, and one of z
    assert np.mean(found == z) >= 0.995


def test_a_bias_that_int32_does_not_hold_is_refused() -> None:
    with pytest.raises(CompileError, match=r"tensor 2 'b': is a bias from .* to 2199023255552; expected what int32"):
        tilewright.compile(wide_file(np.where(np.arange(16), BIAS, 1 << 41)), "base16-a16")


def test_layers_are_the_hosts_of_a_machine_of_eight_bits() -> None:
    program = tilewright.compile(wide_file(), "base16")
    reasons = {node.reason for node in program.host_nodes if node.op_type == "Conv"}
    assert reasons == {
        "an activation is int16; expected int8 or uint8. take a machine whose activations hold int16"
    }  # fmt: skip
