"""Networks with few channels."""

from __future__ import annotations

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder, add_conv, rescaled


def narrow_model(width: int = 32, channels: int = 16, stride: int = 2, between: str = "") -> onnx.ModelProto:
    """Two 3×3 convolutions of few channels, between two others; `between` them an operator."""
    builder = ModelBuilder(np.random.default_rng(5))
    x = builder.quantize(builder.input("x", [1, 3, 32, width]), 0.1, name="x.q")
    y = add_conv(builder, x, 3, channels, 3, pads=[1, 1, 1, 1], relu=True, name="first")
    if between == "pool":
        pooled = builder.node("MaxPool", [y], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        y = builder.quantize(pooled, 0.1, name="pool.q")
    y = add_conv(builder, y, channels, channels, 3, pads=[1, 1, 1, 1], relu=True, name="second")
    builder.output(add_conv(builder, y, channels, 2 * channels, 3, stride=stride, pads=[1, 1, 1, 1], name="last"))
    return rescaled(builder.build("narrow"))
