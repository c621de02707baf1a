"""MobileNet V2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018 (arXiv:1801.04381)."""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder
from programs.networks.inverted_residual import inverted_residual_stages

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Table 2: expansion, output channels, how many blocks, stride of the first."""

STEP = 8
"""Channels of thinner networks are multiples of this, as in the authors' release."""


def mobilenet_v2(builder: Builder, width: float = 1.0, size: int = 224) -> onnx.ModelProto:
    """Table 2; `width` thins or widens layers, but never thins the last convolution; `size` is that of an image."""
    x = builder.input("image", 3, size, size)
    x = builder.relu6(builder.conv("conv_first", x, _channels(32 * width), 3, stride=2))
    x = inverted_residual_stages(builder, x, [(t, 3, _channels(c * width), n, s) for t, c, n, s in STAGES])
    x = builder.relu6(builder.conv("conv_last", x, _channels(1280 * max(1.0, width))))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, 1000))


def _channels(wanted: float) -> int:
    """The nearest multiple of STEP that is at least one step, and no less than nine tenths of what is wanted."""
    nearest = max(STEP, int(wanted + STEP / 2) // STEP * STEP)
    return nearest if nearest >= 0.9 * wanted else nearest + STEP
