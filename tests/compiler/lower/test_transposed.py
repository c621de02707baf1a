"""Transposed convolutions, compiled and simulated, against unoptimised ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, pair, rescaled
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.transposed import phases


def transposed(
    kernel: Any = 3, channels: int = 24, group: int = 1, activation: type = np.int8, norm: bool = False,
    bias: bool = True, inputs: int = 20, **attributes: Any,
) -> onnx.ModelProto:  # fmt: skip
    builder = ModelBuilder(np.random.default_rng(3), activation=activation)
    x = builder.quantize(builder.input("x", (2, inputs, 7, 6)), 0.1, name="x.q")
    weight, scale = builder.weights("up", [inputs, channels // group, *pair(kernel)], axis=1)
    operands = [x, weight, *([builder.bias("up", channels, 0.1 * scale)] if bias else [])]
    y = builder.node("ConvTranspose", operands, name="up", group=group, **attributes)
    if norm:
        values = builder.rng.uniform(0.5, 2, (4, channels)).astype(np.float32)
        y = builder.node("BatchNormalization", [y, *(builder.constant(f"n{i}", v) for i, v in enumerate(values))])
    builder.output(builder.quantize(y, 1.0, name="y.q"))
    return rescaled(builder.build("transposed"))


CASES: dict[str, dict[str, Any]] = {
    "kernel is stride": {"kernel": 2, "strides": [2, 2]},
    "overlapping": {"kernel": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "output padding": {"kernel": 3, "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    "stride 1": {"kernel": 3, "pads": [1, 1, 1, 1]},
    "dilated": {"kernel": 3, "strides": [2, 2], "pads": [0, 1, 2, 1], "dilations": [2, 2]},
    "dilated beyond the stride": {"kernel": [2, 3], "strides": [2, 1], "dilations": [3, 2], "activation": np.uint8},
    "grouped": {"kernel": [3, 5], "strides": [2, 3], "output_padding": [1, 2], "group": 4},
    "each channel by itself": {"kernel": 2, "strides": [3, 3], "group": 20, "channels": 20},
    "phases without a tap": {"kernel": 1, "strides": [2, 2], "output_padding": [1, 1]},
    "output shape": {"kernel": 3, "strides": [2, 2], "output_shape": [14, 13], "bias": False},
    "same upper": {"kernel": 3, "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same lower": {"kernel": 4, "strides": [3, 3], "auto_pad": "SAME_LOWER", "channels": 9},
    "valid": {"kernel": 3, "strides": [2, 2], "auto_pad": "VALID"},
    "normalised": {"kernel": 2, "strides": [2, 2], "norm": True},
}


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("case", CASES)
def test_computes_what_onnx_runtime_computes(case: str, machine: str) -> None:
    apart = compiled_distances(transposed(**CASES[case]), machine)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


def test_phases_of_stride_2_and_kernel_3() -> None:
    even, odd = phases(3, 7, {"strides": (2, 2), "dilations": (1, 1), "crops": (0, 0)}, 0)
    assert (even.first, even.count, even.taps, even.start, even.step) == (0, 4, (2, 0), -1, 1)
    assert (odd.first, odd.count, odd.taps, odd.start, odd.step) == (1, 3, (1,), 0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel_shape": [2, 2]}, "kernel_shape = [2, 2], the weights have [3, 3]; expected the same numbers"),
        (
            {"strides": [2, 2], "output_padding": [5, 5]},
            "output_padding = [5, 5]; expected 0 to less than the stride or dilation",
        ),
        ({"auto_pad": "X"}, "auto_pad = 'X'; expected 'NOTSET' or 'SAME_UPPER' or 'SAME_LOWER' or 'VALID'"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (2, 20, 7, 6)), 0.1, name="x.q")
    weight, _ = builder.weights("up", [20, 24, 3, 3], axis=1)
    builder.output(builder.quantize(builder.node("ConvTranspose", [x, weight], name="up", **given), 1.0, name="y.q"))
    with pytest.raises(CompileError) as refused:
        simplified(builder.build())
    assert str(refused.value) == f"node 'up' (ConvTranspose): {message}"
