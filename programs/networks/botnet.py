"""BoTNet-50: Srinivas et al., "Bottleneck Transformers for Visual Recognition", 2021 (arXiv:2101.11605).

ResNet-50 whose last three blocks have attention over all positions in place of their 3×3 convolution.
"""

from __future__ import annotations

from math import sqrt

import onnx

from programs.networks.builder import LINEAR_GAIN, RELU_GAIN, Builder, Value
from programs.networks.resnet import BRANCH_GAIN, bottleneck, head, shortcut, stem, stride_of

HEADS = 4


def botnet50(builder: Builder) -> onnx.ModelProto:
    """Table 1, BoT50, at 224×224: the first attention sees 14×14 positions and halves them behind it, by averages."""
    x = stem(builder)
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6)), 1):
        for block in range(blocks):
            x = bottleneck(builder, f"layer{stage}.{block}", x, channels, stride_of(stage, block), stride_in_3x3=True)
    for block in range(3):
        x = _attention_block(builder, f"layer4.{block}", x, 512, stride_of(4, block))
    return head(builder, x, 1000)


def _attention_block(builder: Builder, name: str, source: Value, channels: int, stride: int) -> Value:
    """Figure 1, right."""
    x = builder.relu(builder.conv(f"{name}.conv1", source, channels, 1))
    x = attention(builder, f"{name}.attention", x)
    if stride > 1:
        x = builder.average_pool(f"{name}.pool", x, (stride, stride))
    x = builder.conv(f"{name}.conv3", builder.relu(x), 4 * channels, 1, gain=BRANCH_GAIN)
    around = shortcut(builder, name, source, 4 * channels, stride)
    return builder.relu(builder.add(f"{name}.add", x, around))


def attention(builder: Builder, name: str, source: Value) -> Value:
    """Figure 4: softmax(q kᵀ + q rᵀ) v for each head, with r the sum of an encoding of the row and one of the column.

    q kᵀ + q rᵀ is q (k + r)ᵀ. The normalisation behind it is part of v, as the weights of each position sum to 1.
    """
    _, channels, height, width = source.shape
    split = (1, HEADS, channels // HEADS, height * width)
    q = builder.conv(f"{name}.q", source, channels, gain=LINEAR_GAIN, is_normalised=False, has_bias=False)
    k = builder.conv(f"{name}.k", source, channels, gain=LINEAR_GAIN, is_normalised=False, has_bias=False)
    v = builder.conv(f"{name}.v", source, channels, gain=RELU_GAIN * height)  # an average over positions takes variance
    for part, shape in (("rows", (1, channels, height, 1)), ("columns", (1, channels, 1, width))):
        k = builder.add(f"{name}.k.{part}", k, builder.parameter(f"{name}.{part}", shape, gain=0.5))
    q, k, v = (builder.reshape(f"{name}.{letter}.heads", of, split) for letter, of in (("q", q), ("k", k), ("v", v)))
    scores = builder.matmul(f"{name}.scores", builder.transpose(f"{name}.q.turned", q, (0, 1, 3, 2)), k)
    scores = builder.scaled(f"{name}.scaled", scores, 1 / sqrt(channels // HEADS))
    weights = builder.softmax(f"{name}.softmax", scores, axis=3)
    turned = builder.transpose(f"{name}.weights.turned", weights, (0, 1, 3, 2))
    return builder.reshape(f"{name}.joined", builder.matmul(f"{name}.values", v, turned), source.shape)
