"""YOLOv3-tiny: the small detector of Redmon, Farhadi, "YOLOv3: An Incremental Improvement", 2018 (arXiv:1804.02767).

The layers of the authors' `yolov3-tiny.cfg`, up to the raw maps of its two heads: for each cell three boxes of
4 coordinates, an objectness and 80 classes. With boxes decoded (section 2.1), as exporters write it, there is one list
of all boxes in pixels of the image. Non-maximum suppression is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

SLOPE = 0.1
IMAGE = 416
VALUES = 4 + 1 + 80
"""Of a box: coordinates, objectness and classes."""

HEAD_CHANNELS = 3 * VALUES
COARSE_ANCHORS = ((81, 82), (135, 169), (344, 319))
FINE_ANCHORS = ((10, 14), (23, 27), (37, 58))
"""Widths and heights in pixels."""


def yolov3_tiny(builder: Builder) -> onnx.ModelProto:
    """416×416; maps of 13×13 and 26×26 cells."""
    coarse, fine = _maps(builder)
    return builder.model(coarse=coarse, fine=fine)


def yolov3_tiny_boxes(builder: Builder) -> onnx.ModelProto:
    """The same, with 3 · (13 · 13 + 26 · 26) boxes: centre, size, objectness and classes of each."""
    maps = zip(("coarse", "fine"), _maps(builder), (COARSE_ANCHORS, FINE_ANCHORS), strict=True)
    boxes = [_decoded(builder, name, source, anchors) for name, source, anchors in maps]
    return builder.model(boxes=builder.concat("boxes", *boxes))


def _maps(builder: Builder) -> tuple[Value, Value]:
    """The raw maps of the coarse and of the fine head."""
    x = builder.input("image", 3, IMAGE, IMAGE)
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
    return coarse, fine


def _decoded(builder: Builder, name: str, source: Value, anchors: Sequence[tuple[int, int]]) -> Value:
    """[1, 3 · 85, H, W] as [1, 3 · H · W, 85]: sigmoid(t) + cell, anchor · exp(t), sigmoid of all others."""
    _, _, height, width = source.shape
    x = builder.reshape(f"{name}.anchors", source, (1, len(anchors), VALUES, height, width))
    x = builder.transpose(f"{name}.last", x, (0, 1, 3, 4, 2))
    centre, size, scores = (
        builder.slice(f"{name}.{part}", x, start, end, axis=4)
        for part, start, end in (("centre", 0, 2), ("size", 2, 4), ("scores", 4, VALUES))
    )
    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1)[None, None]
    centre = builder.with_constant("Add", f"{name}.cell", builder.sigmoid(centre), cells)
    centre = builder.with_constant("Mul", f"{name}.stride", centre, np.array(IMAGE // height))
    size = builder.with_constant("Mul", f"{name}.anchor", builder.exp(size), np.array(anchors)[None, :, None, None])
    x = builder.concat(f"{name}.joined", centre, size, builder.sigmoid(scores), axis=4)
    return builder.reshape(f"{name}.boxes", x, (1, len(anchors) * height * width, VALUES))


def _conv(builder: Builder, name: str, source: Value, channels: int, kernel: int = 3) -> Value:
    return builder.leaky_relu(builder.conv(name, source, channels, kernel), SLOPE)


def _head(builder: Builder, name: str, source: Value) -> Value:
    return builder.conv(f"{name}.head", source, HEAD_CHANNELS, gain=LINEAR_GAIN, is_normalised=False)
