"""YOLOv3-tiny: the small detector of Redmon, Farhadi, "YOLOv3: An Incremental Improvement", 2018 (arXiv:1804.02767).

The layers of the authors' `yolov3-tiny.cfg`, up to the raw maps of its two heads: for each cell three boxes of
4 coordinates, an objectness and 80 classes. Decoding and non-maximum suppression are the host's.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

SLOPE = 0.1
HEAD_CHANNELS = 3 * (4 + 1 + 80)


def yolov3_tiny(builder: Builder) -> onnx.ModelProto:
    """416×416; maps of 13×13 and 26×26 cells."""
    x = builder.input("image", 3, 416, 416)
    for layer, channels in enumerate((16, 32, 64, 128)):
        x = _conv(builder, f"conv{layer}", x, channels)
        x = builder.max_pool(f"maxpool{layer}", x, 2, stride=2)
    route = _conv(builder, "conv4", x, 256)
    x = _conv(builder, "conv5", builder.max_pool("maxpool4", route, 2, stride=2), 512)
    x = _conv(builder, "conv6", builder.max_pool("maxpool5", x, 2, stride=1, padding="same"), 1024)
    neck = _conv(builder, "neck", x, 256, 1)
    coarse = _head(builder, "coarse", _conv(builder, "coarse.conv", neck, 512))
    x = builder.upsample("upsample", _conv(builder, "fine.reduce", neck, 128, 1))
    fine = _head(builder, "fine", _conv(builder, "fine.conv", builder.concat("concat", x, route), 256))
    return builder.model(coarse=coarse, fine=fine)


def _conv(builder: Builder, name: str, source: Value, channels: int, kernel: int = 3) -> Value:
    return builder.leaky_relu(builder.conv(name, source, channels, kernel), SLOPE)


def _head(builder: Builder, name: str, source: Value) -> Value:
    return builder.conv(f"{name}.head", source, HEAD_CHANNELS, gain=LINEAR_GAIN, is_normalised=False)
