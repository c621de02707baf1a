"""SqueezeNet: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016 (arXiv:1602.07360).

No normalisation anywhere; the classifier is a convolution whose averages are the logits.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder, Value

FIRES_1_0 = ((16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool", (64, 256))
"""Table 1: squeezed channels, and those of each of the two expansions; a max pool in between."""

FIRES_1_1 = ((16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool", (48, 192), (48, 192), (64, 256), (64, 256))
"""The release 1.1 of its authors: earlier pools, 2.4 times less work."""


def squeezenet_1_0(builder: Builder) -> onnx.ModelProto:
    """Table 1."""
    return _squeezenet(builder, FIRES_1_0, channels=96, kernel=7)


def squeezenet_1_1(builder: Builder) -> onnx.ModelProto:
    """The release 1.1."""
    return _squeezenet(builder, FIRES_1_1, channels=64, kernel=3)


def _squeezenet(
    builder: Builder, layers: tuple[tuple[int, int] | str, ...], channels: int, kernel: int
) -> onnx.ModelProto:
    x = builder.input("image", 3, 224, 224)
    x = builder.relu(builder.conv("conv1", x, channels, kernel, stride=2, padding="valid", is_normalised=False))
    x = _pool(builder, "maxpool1", x)
    for index, layer in enumerate(layers, 2):
        x = (
            _pool(builder, f"maxpool{index}", x)
            if isinstance(layer, str)
            else _fire(builder, f"fire{index}", x, *layer)
        )
    x = builder.relu(builder.conv("classifier", x, 1000, is_normalised=False))
    return builder.model(logits=builder.flatten(builder.global_average("average", x)))


def _pool(builder: Builder, name: str, source: Value) -> Value:
    return builder.max_pool(name, source, 3, stride=2, is_ceil=True)


def _fire(builder: Builder, name: str, source: Value, squeezed: int, expanded: int) -> Value:
    """Figure 1: 1×1 to few channels, then 1×1 and 3×3 to many, one after the other."""
    x = builder.relu(builder.conv(f"{name}.squeeze", source, squeezed, is_normalised=False))
    left = builder.relu(builder.conv(f"{name}.expand1x1", x, expanded, is_normalised=False))
    right = builder.relu(builder.conv(f"{name}.expand3x3", x, expanded, 3, is_normalised=False))
    return builder.concat(f"{name}.concat", left, right)
