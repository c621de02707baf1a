"""MobileNet V1 (Howard et al. 2017, arXiv:1704.04861) and V2 (Sandler et al. 2018, arXiv:1801.04381)."""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

V1_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Table 1 of V1: output channels and stride of each depthwise separable convolution."""

V2_BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Table 2 of V2: expansion, output channels, how many, stride of the first."""


def mobilenet_v1(builder: Builder) -> onnx.ModelProto:
    """Table 1 of V1: width 1.0, 224×224."""
    return _mobilenet_v1(builder, size=224, classes=1000, width=1.0)


def mobilenet_v1_025(builder: Builder) -> onnx.ModelProto:
    """Width 0.25 at 96×96, two classes: visual wake words of MLPerf Tiny (Banbury et al. 2021, arXiv:2106.07597)."""
    return _mobilenet_v1(builder, size=96, classes=2, width=0.25)


def mobilenet_v2(builder: Builder) -> onnx.ModelProto:
    """Table 2 of V2: width 1.0, 224×224."""
    x = builder.input("image", 3, 224, 224)
    x = builder.relu6(builder.conv("conv_first", x, 32, 3, stride=2))
    index = 0
    for expansion, channels, count, first_stride in V2_BLOCKS:
        for repeat in range(count):
            x = _inverted_residual(builder, f"block{index}", x, expansion, channels, first_stride if repeat == 0 else 1)
            index += 1
    x = builder.relu6(builder.conv("conv_last", x, 1280))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, 1000))


def _mobilenet_v1(builder: Builder, size: int, classes: int, width: float) -> onnx.ModelProto:
    x = builder.input("image", 3, size, size)
    x = builder.relu(builder.conv("conv", x, int(32 * width), 3, stride=2, padding="same"))
    for index, (channels, stride) in enumerate(V1_BLOCKS):
        x = builder.relu(builder.depthwise(f"block{index}.depthwise", x, stride=stride, padding="same"))
        x = builder.relu(builder.conv(f"block{index}.pointwise", x, int(channels * width)))
    x = builder.flatten(builder.global_average("average", x))
    return builder.model(logits=builder.dense("dense", x, classes))


def _inverted_residual(builder: Builder, name: str, source: Value, expansion: int, channels: int, stride: int) -> Value:
    """Figure 4 of V2: expand, filter each channel, project without relu, add where the shape allows."""
    x = source
    if expansion != 1:
        x = builder.relu6(builder.conv(f"{name}.expand", x, expansion * source.channels))
    x = builder.relu6(builder.depthwise(f"{name}.depthwise", x, stride=stride))
    x = builder.conv(f"{name}.project", x, channels, gain=LINEAR_GAIN)
    if stride == 1 and source.channels == channels:
        x = builder.add(f"{name}.add", source, x)
    return x
