"""MobileNet V1: Howard et al., "MobileNets: Efficient Convolutional Neural Networks", 2017 (arXiv:1704.04861)."""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Table 1: output channels and stride of each depthwise separable convolution."""


def mobilenet_v1(builder: Builder, width: float = 1.0, size: int = 224) -> onnx.ModelProto:
    """Table 1; `width` thins every layer, `size` is the height and width of an image (sections 3.3 and 3.4)."""
    return _mobilenet_v1(builder, size=size, classes=1000, width=width)


def mobilenet_v1_025(builder: Builder) -> onnx.ModelProto:
    """Width 0.25 at 96×96, two classes: visual wake words of MLPerf Tiny (Banbury et al. 2021, arXiv:2106.07597)."""
    return _mobilenet_v1(builder, size=96, classes=2, width=0.25)


def _mobilenet_v1(builder: Builder, size: int, classes: int, width: float) -> onnx.ModelProto:
    x = builder.input("image", 3, size, size)
    x = builder.relu(builder.conv("conv", x, int(32 * width), 3, stride=2, padding="same"))
    for index, (channels, stride) in enumerate(BLOCKS):
        x = builder.relu(builder.depthwise(f"block{index}.depthwise", x, stride=stride, padding="same"))
        x = builder.relu(builder.conv(f"block{index}.pointwise", x, int(channels * width)))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, classes))
