"""ResNet: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015 (arXiv:1512.03385)."""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

BRANCH_GAIN = 0.5
"""The last convolution of a block adds to its input: half a gain keeps sixteen blocks in range."""


def resnet18(builder: Builder) -> onnx.ModelProto:
    """Table 1, 18 layers: pairs of 3×3 convolutions; a 1×1 convolution where the shape changes (option B)."""
    x = stem(builder)
    for stage, (channels, blocks) in enumerate(((64, 2), (128, 2), (256, 2), (512, 2)), 1):
        for block in range(blocks):
            x = _basic(builder, f"layer{stage}.{block}", x, channels, stride_of(stage, block))
    return head(builder, x, 1000)


def resnet50(builder: Builder) -> onnx.ModelProto:
    """Table 1, 50 layers: bottlenecks, with the stride in their first 1×1 convolution, as in the paper."""
    return _resnet50(builder, stride_in_3x3=False)


def resnet50_v1_5(builder: Builder) -> onnx.ModelProto:
    """The usual variant, which the paper does not have: the stride is in the 3×3 convolution."""
    return _resnet50(builder, stride_in_3x3=True)


def resnet8(builder: Builder) -> onnx.ModelProto:
    """The image classifier of MLPerf Tiny (Banbury et al. 2021, arXiv:2106.07597): CIFAR-10, one block a stage."""
    x = builder.input("image", 3, 32, 32)
    x = builder.relu(builder.conv("conv", x, 16, 3))
    for stage, channels in enumerate((16, 32, 64), 1):
        x = _basic(builder, f"layer{stage}", x, channels, stride_of(stage, 0), is_tiny=True)
    return head(builder, x, 10)


def _resnet50(builder: Builder, stride_in_3x3: bool) -> onnx.ModelProto:
    x = stem(builder)
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(blocks):
            x = bottleneck(builder, f"layer{stage}.{block}", x, channels, stride_of(stage, block), stride_in_3x3)
    return head(builder, x, 1000)


def stem(builder: Builder) -> Value:
    x = builder.input("image", 3, 224, 224)
    x = builder.relu(builder.conv("conv1", x, 64, 7, stride=2))
    return builder.max_pool("maxpool", x, 3, stride=2, padding="symmetric")


def stride_of(stage: int, block: int) -> int:
    return 2 if stage > 1 and block == 0 else 1


def _basic(builder: Builder, name: str, source: Value, channels: int, stride: int, is_tiny: bool = False) -> Value:
    """Figure 5, left. MLPerf Tiny's has TensorFlow's padding, and no normalisation in its shortcuts."""
    padding = "same" if is_tiny else "symmetric"
    x = builder.relu(builder.conv(f"{name}.conv1", source, channels, 3, stride=stride, padding=padding))
    x = builder.conv(f"{name}.conv2", x, channels, 3, gain=BRANCH_GAIN)
    around = shortcut(builder, name, source, channels, stride, is_normalised=not is_tiny)
    return builder.relu(builder.add(f"{name}.add", x, around))


def bottleneck(builder: Builder, name: str, source: Value, channels: int, stride: int, stride_in_3x3: bool) -> Value:
    """Figure 5, right."""
    first, second = (1, stride) if stride_in_3x3 else (stride, 1)
    x = builder.relu(builder.conv(f"{name}.conv1", source, channels, 1, stride=first))
    x = builder.relu(builder.conv(f"{name}.conv2", x, channels, 3, stride=second))
    x = builder.conv(f"{name}.conv3", x, 4 * channels, 1, gain=BRANCH_GAIN)
    around = shortcut(builder, name, source, 4 * channels, stride)
    return builder.relu(builder.add(f"{name}.add", x, around))


def shortcut(
    builder: Builder, name: str, source: Value, channels: int, stride: int, is_normalised: bool = True
) -> Value:
    if stride == 1 and source.channels == channels:
        return source
    name = f"{name}.shortcut"
    return builder.conv(name, source, channels, stride=stride, gain=LINEAR_GAIN, is_normalised=is_normalised)


def head(builder: Builder, source: Value, classes: int) -> onnx.ModelProto:
    x = builder.flatten(builder.global_average("average", source))
    return builder.model(logits=builder.dense("dense", x, classes))
