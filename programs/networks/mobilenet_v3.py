"""MobileNet V3: Howard et al., "Searching for MobileNetV3", 2019 (arXiv:1905.02244).

Widths of squeeze-and-excite follow torchvision's implementation: a quarter of the expanded channels, in steps of 8.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import RELU_GAIN, Builder
from programs.networks.inverted_residual import inverted_residual

LARGE = (
    (3, 16, 16, False, "relu", 1),
    (3, 64, 24, False, "relu", 2),
    (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2),
    (5, 120, 40, True, "relu", 1),
    (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hard_swish", 2),
    (3, 200, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 480, 112, True, "hard_swish", 1),
    (3, 672, 112, True, "hard_swish", 1),
    (5, 672, 160, True, "hard_swish", 2),
    (5, 960, 160, True, "hard_swish", 1),
    (5, 960, 160, True, "hard_swish", 1),
)
"""Table 1: kernel, expanded channels, output channels, squeeze-and-excite, activation, stride."""

SMALL = (
    (3, 16, 16, True, "relu", 2),
    (3, 72, 24, False, "relu", 2),
    (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hard_swish", 2),
    (5, 240, 40, True, "hard_swish", 1),
    (5, 240, 40, True, "hard_swish", 1),
    (5, 120, 48, True, "hard_swish", 1),
    (5, 144, 48, True, "hard_swish", 1),
    (5, 288, 96, True, "hard_swish", 2),
    (5, 576, 96, True, "hard_swish", 1),
    (5, 576, 96, True, "hard_swish", 1),
)
"""Table 2."""

Blocks = tuple[tuple[int, int, int, bool, str, int], ...]


def mobilenet_v3_large(builder: Builder) -> onnx.ModelProto:
    """Table 1: width 1.0, 224×224."""
    return _mobilenet_v3(builder, LARGE, features=1280)


def mobilenet_v3_small(builder: Builder) -> onnx.ModelProto:
    """Table 2: width 1.0, 224×224."""
    return _mobilenet_v3(builder, SMALL, features=1024)


def _mobilenet_v3(builder: Builder, blocks: Blocks, features: int) -> onnx.ModelProto:
    activations = {"relu": builder.relu, "hard_swish": builder.hard_swish}
    x = builder.input("image", 3, 224, 224)
    x = builder.hard_swish(builder.conv("conv_first", x, 16, 3, stride=2))
    for index, (kernel, expanded, channels, is_squeezed, activation, stride) in enumerate(blocks):
        x = inverted_residual(
            builder,
            f"block{index}",
            x,
            expanded=expanded,
            channels=channels,
            stride=stride,
            activation=activations[activation],
            kernel=kernel,
            squeezed=_in_steps_of_8(expanded // 4) if is_squeezed else None,
        )
    x = builder.hard_swish(builder.conv("conv_last", x, 6 * x.channels))
    x = builder.flatten(builder.global_average("average", x))
    x = builder.hard_swish(builder.dense("dense1", x, features, gain=RELU_GAIN))
    return builder.model(logits=builder.dense("dense2", x, 1000))


def _in_steps_of_8(channels: int) -> int:
    """The nearest multiple of 8 that is not more than a tenth smaller. Example: 18 → 24, because 16 < 0.9 · 18."""
    nearest = max(8, (channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
