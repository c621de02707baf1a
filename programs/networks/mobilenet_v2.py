"""MobileNet V2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018 (arXiv:1801.04381)."""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder
from programs.networks.inverted_residual import inverted_residual_stages

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Table 2: expansion, output channels, how many blocks, stride of the first."""


def mobilenet_v2(builder: Builder) -> onnx.ModelProto:
    """Table 2: width 1.0, 224×224."""
    x = builder.input("image", 3, 224, 224)
    x = builder.relu6(builder.conv("conv_first", x, 32, 3, stride=2))
    x = inverted_residual_stages(builder, x, [(t, 3, c, n, s) for t, c, n, s in STAGES])
    x = builder.relu6(builder.conv("conv_last", x, 1280))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, 1000))
