"""EfficientNet-Lite0: EfficientNet-B0 (Tan, Le 2019, arXiv:1905.11946, table 1) for integer machines.

Without squeeze-and-excite and with relu6 in place of swish; stem and head keep their width (the EfficientNet-Lite
release in tensorflow/tpu, models/official/efficientnet/lite).
"""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder
from programs.networks.inverted_residual import inverted_residual_stages

STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
"""Table 1: expansion, kernel, output channels, how many blocks, stride of the first."""


def efficientnet_lite0(builder: Builder) -> onnx.ModelProto:
    """Table 1 at 224×224, with TensorFlow's padding."""
    x = builder.input("image", 3, 224, 224)
    x = builder.relu6(builder.conv("conv_first", x, 32, 3, stride=2, padding="same"))
    x = inverted_residual_stages(builder, x, STAGES, padding="same")
    x = builder.relu6(builder.conv("conv_last", x, 1280))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, 1000))
