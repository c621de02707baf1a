"""TFLite's weights of four and two bits: they share bytes, are INT4 and INT2 in the model, and multiplied as such."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tilewright.compiler.errors import CompileError
from tilewright.isa.files.loader import load_machine

X_SCALE, Y_SCALE = 0.05, 0.4

SCALES = np.float32(np.random.default_rng(3).uniform(0.01, 0.03, 35))


def kernel(inputs: int, bits: int = 4) -> NDArray[np.int8]:
    half = 1 << (bits - 1)
    return np.random.default_rng(1).integers(-half, half, (35, 1, 1, inputs)).astype(np.int8)


def packed_bytes(values: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """Codes as TFLite packs them: the first of a byte in its lowest bits."""
    count = 8 // bits
    flat = values.ravel().astype(np.uint8) & ((1 << bits) - 1)
    whole = np.append(flat, [0] * (-flat.size % count)).astype(np.uint8).reshape(-1, count)
    return np.bitwise_or.reduce([whole[:, at] << (bits * at) for at in range(count)])


def file_of(values: NDArray[np.int8], missing: int = 0, zeros: tuple[int, ...] = (), bits: int = 4) -> bytes:
    """CONV_2D(x) with a kernel of one pixel, of so many bits a weight."""
    packed = packed_bytes(values, bits)[: -missing or None]
    file = TfliteFile()
    x = file.input("x", (1, 6, 6, values.shape[-1]), X_SCALE, 3, np.int8)
    w = file.constant("w", packed.view(np.int8), SCALES, zeros)
    file.tensors[w.index] = replace(w, shape=values.shape, kind=f"INT{bits}")
    y = file.tensor("y", (1, 6, 6, 35), Y_SCALE, -5, np.int8)
    file.operator("CONV_2D", [x, w], y, "Conv2DOptions", Padding=1, StrideH=1, StrideW=1, QuantizedBiasType=0)
    return file.content(y)


@pytest.mark.parametrize(("machine", "product"), [("base16", "mma"), ("base16-w4", "mma_w4")])
@pytest.mark.parametrize(("inputs", "bits"), [(24, 4), (7, 4), (24, 2), (7, 2)])
def test_results_are_those_of_its_arithmetic(machine: str, product: str, inputs: int, bits: int) -> None:
    """Of 7 inputs, 245 weights, which are no whole bytes."""
    weights = kernel(inputs, bits)
    program = tilewright.compile(file_of(weights, bits=bits), machine)
    assert {each.mnemonic for each in program.binary.instructions if "mma" in each.mnemonic} == {product}
    x = np.random.default_rng(4).integers(-128, 128, (1, 6, 6, inputs)).astype(np.int8)
    sums = (x.astype(np.int64) - 3) @ weights.reshape(35, inputs).T.astype(np.int64)
    y = np.clip(np.rint(sums * (X_SCALE * SCALES.astype(np.float64)) / Y_SCALE) - 5, -128, 127)
    found = program.run({"x": x}).outputs["y"]
    assert np.abs(found - y).max() <= 1 and np.mean(found == y) >= 0.999
    remarks = [about for about in program.binary.metadata if about.startswith("weights")]
    assert len(remarks) == ((machine, bits) != ("base16-w4", 4))  # one where they are widened


@pytest.mark.parametrize("bits", [4, 2])
def test_results_are_those_of_litert(bits: int) -> None:
    """FULLY_CONNECTED, on a machine of int8 and on one that has the type."""
    weights, file = kernel(24, bits).reshape(35, 24), TfliteFile()
    x = file.input("x", (6, 24), X_SCALE, 3, np.int8)
    w = file.constant("w", packed_bytes(weights, bits).view(np.int8), SCALES)
    file.tensors[w.index] = replace(w, shape=weights.shape, kind=f"INT{bits}")
    bias = file.constant("bias", np.arange(35, dtype=np.int32), SCALES * np.float32(X_SCALE))
    y = file.tensor("y", (6, 35), Y_SCALE, -5, np.int8)
    file.operator("FULLY_CONNECTED", [x, w, bias], y, "FullyConnectedOptions")
    inputs = {"x": np.random.default_rng(6).integers(-128, 128, (6, 24)).astype(np.int8)}
    expected = Litert(file.content(y)).run(inputs)["y"]
    narrow = load_machine("w4-only", [f"memories.wgt.element=int{bits}"])
    for machine in ("base16", narrow):
        program = tilewright.compile(file.content(y), machine)
        found = program.run(inputs).outputs["y"]
        assert np.abs(found.astype(np.int64) - expected).max() <= 1 and np.mean(found == expected) >= 0.99
        assert len([about for about in program.binary.metadata if about.startswith("weights")]) == (machine == "base16")


def test_data_that_is_too_short_is_refused() -> None:
    with pytest.raises(CompileError, match=r"'w': holds 419 bytes of data; \[35, 1, 1, 24\] of int4 needs 420"):
        tilewright.compile(file_of(kernel(24), missing=1), "base16")


def test_a_zero_point_that_four_bits_do_not_hold_is_refused() -> None:
    with pytest.raises(CompileError, match=r"'w': has a zero point outside -8 … 7, the range of int4"):
        tilewright.compile(file_of(kernel(24), zeros=(9,) * 35), "base16")
