"""U-Net: Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation", 2015
(arXiv:1505.04597), figure 1.

A quarter of its width at 128×128, and with padded convolutions, so that the skip connections need no cropping.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder, Value

WIDTH = 16
DEPTH = 4
CLASSES = 2


def unet(builder: Builder) -> onnx.ModelProto:
    """Four levels down and up again: pairs of 3×3 convolutions, max pools, transposed convolutions, skips."""
    x = builder.input("image", 1, 128, 128)
    skips = []
    for level in range(DEPTH):
        x = _pair(builder, f"down{level}", x, WIDTH << level)
        skips.append(x)
        x = builder.max_pool(f"down{level}.maxpool", x, 2, stride=2)
    x = _pair(builder, "bottom", x, WIDTH << DEPTH)
    for level in reversed(range(DEPTH)):
        x = builder.up_conv(f"up{level}.upconv", x, WIDTH << level)
        x = _pair(builder, f"up{level}", builder.concat(f"up{level}.concat", skips[level], x), WIDTH << level)
    return builder.model(mask=builder.conv("classify", x, CLASSES, is_normalised=False))


def _pair(builder: Builder, name: str, source: Value, channels: int) -> Value:
    x = builder.relu(builder.conv(f"{name}.conv1", source, channels, 3, is_normalised=False))
    return builder.relu(builder.conv(f"{name}.conv2", x, channels, 3, is_normalised=False))
