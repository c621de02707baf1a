"""TFLite's weights of four bits: two in a byte, INT4 in the model, and multiplied as such where a machine can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import TfliteFile
from tilewright.compiler.errors import CompileError

X_SCALE, Y_SCALE = 0.05, 0.4

SCALES = np.float32(np.random.default_rng(3).uniform(0.01, 0.03, 35))


def kernel(inputs: int) -> NDArray[np.int8]:
    return np.random.default_rng(1).integers(-8, 8, (35, 1, 1, inputs)).astype(np.int8)


def file_of(values: NDArray[np.int8], missing: int = 0, zeros: tuple[int, ...] = ()) -> bytes:
    """CONV_2D(x) with a kernel of one pixel, whose codes are packed as TFLite packs them."""
    flat = values.ravel().astype(np.uint8) & 15
    even = np.append(flat, [0] * (flat.size % 2)).astype(np.uint8).reshape(-1, 2)
    packed = (even[:, 0] | even[:, 1] << 4)[: -missing or None]
    file = TfliteFile()
    x = file.input("x", (1, 6, 6, values.shape[-1]), X_SCALE, 3, np.int8)
    w = file.constant("w", packed.view(np.int8), SCALES, zeros)
    file.tensors[w.index] = replace(w, shape=values.shape, kind="INT4")
    y = file.tensor("y", (1, 6, 6, 35), Y_SCALE, -5, np.int8)
    file.operator("CONV_2D", [x, w], y, "Conv2DOptions", Padding=1, StrideH=1, StrideW=1, QuantizedBiasType=0)
    return file.content(y)


@pytest.mark.parametrize(("machine", "product"), [("base16", "mma"), ("base16-w4", "mma_w4")])
@pytest.mark.parametrize("inputs", [24, 7])
def test_results_are_those_of_its_arithmetic(machine: str, product: str, inputs: int) -> None:
    """Of 7 inputs, 245 weights, which are no whole bytes."""
    program = tilewright.compile(file_of(kernel(inputs)), machine)
    assert {each.mnemonic for each in program.binary.instructions if "mma" in each.mnemonic} == {product}
    x = np.random.default_rng(4).integers(-128, 128, (1, 6, 6, inputs)).astype(np.int8)
    sums = (x.astype(np.int64) - 3) @ kernel(inputs).reshape(35, inputs).T.astype(np.int64)
    y = np.clip(np.rint(sums * (X_SCALE * SCALES.astype(np.float64)) / Y_SCALE) - 5, -128, 127)
    found = program.run({"x": x}).outputs["y"]
    assert np.abs(found - y).max() <= 1 and np.mean(found == y) >= 0.999
    remarks = [about for about in program.binary.metadata if about.startswith("weights")]
    assert len(remarks) == (machine == "base16")


def test_data_that_is_too_short_is_refused() -> None:
    with pytest.raises(CompileError, match=r"'w': holds 419 bytes of data; \[35, 1, 1, 24\] of int4 needs 420"):
        tilewright.compile(file_of(kernel(24), missing=1), "base16")


def test_a_zero_point_that_four_bits_do_not_hold_is_refused() -> None:
    with pytest.raises(CompileError, match=r"'w': has a zero point outside -8 … 7, the range of int4"):
        tilewright.compile(file_of(kernel(24), zeros=(9,) * 35), "base16")
