"""Calibration data of any types, shapes and values, for a small float network.

What is accepted gives a network that ONNX's checker takes and ONNX Runtime runs, with no result that is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from tests.compiler.models import run_onnx
from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.quantization.quantize import quantize

SHAPE = (1, 3, 6, 6)

DTYPES = (*("float32",) * 24, "float64", "int8", "int64", "bool", "float16", ">f4", "U1", "complex64")

SPECIAL = (0.0, -0.0, 1.0, 1e-45, 1e-38, 1e-20, -1e6, 1e20, 3.4e38, -3.4e38, float("nan"), float("inf"))


@dataclass(frozen=True)
class Data:
    """An array: random numbers of a size, with special ones in places; and how it is to be used."""

    name: str = "image"
    dtype: str = "float32"
    shape: tuple[int, ...] = (2, *SHAPE)
    scale: float = 1.0
    special: tuple[tuple[int, float], ...] = ()
    method: str = "minmax"
    activations: str = "int8"
    percentile: float = 99.99

    @property
    def array(self) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            values = np.random.default_rng(0).standard_normal(self.shape, np.float32) * np.float32(self.scale)
            for position, value in self.special:
                if values.size:
                    values.ravel()[position % values.size] = value
            return values.astype(self.dtype)


@cache
def _network() -> onnx.ModelProto:
    b = FloatBuilder()
    x = b.node("Relu", "relu", b.conv("conv", b.input("image", SHAPE), 3, 4))
    x = b.node("Flatten", "flat", b.node("GlobalAveragePool", "average", x))
    return b.build(b.node("Gemm", "dense", x, b.normal("dense.weight", 4, 5), b.normal("dense.bias", 5)))


@strategies.composite
def data(draw: DrawFn) -> Data:
    shapes = [(2, *SHAPE)] * 24 + [SHAPE, (3, *SHAPE[1:]), (), (0, *SHAPE), (2, 3, 6), (1, 3, 6, 7), (2, 1, 1, 3, 6, 6)]
    special = strategies.tuples(strategies.integers(0, 215), strategies.sampled_from(SPECIAL))
    return Data(
        draw(strategies.sampled_from(["image"] * 24 + ["other"])),
        draw(strategies.sampled_from(DTYPES)),
        draw(strategies.sampled_from(shapes)),
        draw(strategies.sampled_from([1.0, 0.0, 1e-45, 1e-38, 1e-10, 1e6, 1e20, 1e38])),
        tuple(draw(strategies.lists(special, max_size=2))),
        draw(strategies.sampled_from(["minmax"] * 4 + ["percentile", "percentile", "entropy", "other"])),
        draw(strategies.sampled_from(["int8", "int8", "int8", "uint8", "uint8", "uint8", "other"])),
        draw(strategies.sampled_from([*[99.99] * 6, 50.0, 100.0, 0.0, -1.0, 101.0, float("nan")])),
    )


def attempt(given: Data) -> Outcome:
    calibration = {given.name: given.array}
    try:
        quantized = quantize(
            _network(),
            calibration,
            method=given.method,
            activations=given.activations,
            percentile=given.percentile,
        )
    except (InputError, CompileError):
        return Outcome.REFUSED
    with accepted("calibration"):
        onnx.checker.check_model(quantized.model, full_check=True)
        sample = given.array.reshape(-1, *SHAPE)[0].astype(np.float32)
        for name, values in run_onnx(quantized.model, {"image": sample}).items():
            if not np.isfinite(values).all():
                raise WrongAnswer(f"output {name!r} is not finite", "calibration: values")
    return Outcome.RIGHT


TARGET = Target("calibration data", data(), attempt)
