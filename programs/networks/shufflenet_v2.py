"""ShuffleNetV2: Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design", 2018.

arXiv:1807.11164, the width 1×. Channels are split, joined and shuffled as exporters write it: Split, Concat, and a
Reshape, a Transpose and a Reshape over five dimensions.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

STAGES = ((116, 4), (232, 8), (464, 4))
"""Table 5: channels and units of the stages 2 to 4; the first unit of each has stride 2."""

GROUPS = 2


def shufflenet_v2(builder: Builder) -> onnx.ModelProto:
    """224×224, 1000 classes."""
    x = builder.input("image", 3, 224, 224)
    x = builder.relu(builder.conv("conv1", x, 24, 3, stride=2))
    x = builder.max_pool("maxpool", x, 3, stride=2, padding="symmetric")
    for stage, (channels, units) in enumerate(STAGES, 2):
        x = _down_unit(builder, f"stage{stage}.0", x, channels // 2)
        for unit in range(1, units):
            x = _unit(builder, f"stage{stage}.{unit}", x)
    x = builder.relu(builder.conv("conv5", x, 1024))
    return builder.model(logits=builder.dense("dense", builder.flatten(builder.global_average("average", x)), 1000))


def _unit(builder: Builder, name: str, source: Value) -> Value:
    """Figure 3(c): one half of the channels stays as it is."""
    left, right = builder.split(f"{name}.split", source, 2)
    return _shuffled(builder, name, left, _branch(builder, f"{name}.right", right, right.channels, stride=1))


def _down_unit(builder: Builder, name: str, source: Value, channels: int) -> Value:
    """Figure 3(d): both branches see all channels, and halve height and width."""
    left = _depthwise(builder, f"{name}.left.depthwise", source, stride=2)
    left = builder.relu(builder.conv(f"{name}.left.expand", left, channels))
    return _shuffled(builder, name, left, _branch(builder, f"{name}.right", source, channels, stride=2))


def _branch(builder: Builder, name: str, source: Value, channels: int, stride: int) -> Value:
    x = builder.relu(builder.conv(f"{name}.reduce", source, channels))
    return builder.relu(builder.conv(f"{name}.expand", _depthwise(builder, f"{name}.depthwise", x, stride), channels))


def _depthwise(builder: Builder, name: str, source: Value, stride: int) -> Value:
    """A 3×3 convolution of each channel, with no activation after it."""
    return builder.conv(name, source, source.channels, 3, stride=stride, groups=source.channels, gain=LINEAR_GAIN)


def _shuffled(builder: Builder, name: str, left: Value, right: Value) -> Value:
    """Both branches, and channel c of the left one in front of channel c of the right one."""
    x = builder.concat(f"{name}.concat", left, right)
    batch, channels, height, width = x.shape
    x = builder.reshape(f"{name}.groups", x, (batch, GROUPS, channels // GROUPS, height, width))
    x = builder.transpose(f"{name}.shuffle", x, (0, 2, 1, 3, 4))
    return builder.reshape(f"{name}.channels", x, (batch, channels, height, width))
