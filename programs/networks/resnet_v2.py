"""ResNet-20v2: He et al., "Identity Mappings in Deep Residual Networks", 2016 (arXiv:1603.05027), for CIFAR-10.

Bottlenecks with normalisation and relu in front of each convolution, as in Keras's example `cifar10_resnet` with
depth 9·2 + 2. A normalisation behind an addition cannot become part of a convolution: it stays a node.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import LINEAR_GAIN, Builder, Value

BLOCKS = 2
BRANCH_GAIN = 0.5


def resnet20_v2(builder: Builder) -> onnx.ModelProto:
    """Three stages of two bottlenecks at 32×32, 16×16 and 8×8."""
    x = builder.input("image", 3, 32, 32)
    x = builder.relu(builder.conv("conv", x, 16, 3))
    inner = 16
    for stage in range(3):
        outer = inner * (4 if stage == 0 else 2)
        for block in range(BLOCKS):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(builder, f"stage{stage}.{block}", x, inner, outer, stride, stage == 0 and block == 0)
        inner = outer
    x = builder.relu(builder.batch_norm("norm", x))
    x = builder.flatten(builder.average_pool("average", x, (8, 8)))
    return builder.model(logits=builder.dense("dense", x, 10))


def _bottleneck(
    builder: Builder, name: str, source: Value, inner: int, outer: int, stride: int, is_first: bool
) -> Value:
    """Figure 4(e). The network's first block follows a normalised relu already; a stage's first has a projection."""
    x = source if is_first else builder.relu(builder.batch_norm(f"{name}.norm", source))
    x = builder.relu(builder.conv(f"{name}.conv1", x, inner, 1, stride=stride))
    x = builder.relu(builder.conv(f"{name}.conv2", x, inner, 3))
    x = builder.conv(f"{name}.conv3", x, outer, 1, gain=BRANCH_GAIN, is_normalised=False)
    shortcut = source
    if source.channels != outer:
        shortcut = builder.conv(
            f"{name}.shortcut", source, outer, 1, stride=stride, gain=LINEAR_GAIN, is_normalised=False
        )
    return builder.add(f"{name}.add", shortcut, x)
