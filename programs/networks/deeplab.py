"""DeepLabV3 over MobileNetV2, as in Sandler et al., 2018 (arXiv:1801.04381), section 6.3, without ASPP.

The head follows Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation", 2017 (arXiv:1706.05587),
section 3.3: features of the whole image beside those of each pixel.
"""

from __future__ import annotations

import onnx

from programs.networks.builder import Builder, Value
from programs.networks.inverted_residual import inverted_residual
from programs.networks.mobilenet_v2 import STAGES

SIZE = 513
OUTPUT_STRIDE = 16
FEATURES = 256
CLASSES = 21


def deeplab_v3_mobilenet_v2(builder: Builder) -> onnx.ModelProto:
    """Table 7, MNet V2*: 513×513 at an output stride of 16. Where the stride would be more, taps lie further apart."""
    x = builder.input("image", 3, SIZE, SIZE)
    x = builder.relu6(builder.conv("conv_first", x, 32, 3, stride=2))
    reached, dilation = 2, 1
    for stage, (expansion, channels, blocks, stride) in enumerate(STAGES):
        for block in range(blocks):
            wanted = stride if block == 0 else 1
            taken = wanted if reached * wanted <= OUTPUT_STRIDE else 1
            x = inverted_residual(
                builder,
                f"stage{stage}.{block}",
                x,
                expanded=expansion * x.channels,
                channels=channels,
                stride=taken,
                dilation=dilation,
                activation=builder.relu6,
            )
            reached, dilation = reached * taken, dilation * wanted // taken
    return builder.model(scores=builder.enlarge("enlarge", _head(builder, x), SIZE, SIZE))


def _head(builder: Builder, source: Value) -> Value:
    height, width = source.shape[2:]
    image = builder.relu(builder.conv("head.image", builder.global_average("head.average", source), FEATURES))
    pixels = builder.relu(builder.conv("head.pixels", source, FEATURES))
    both = builder.concat("head.concat", builder.enlarge("head.everywhere", image, height, width), pixels)
    x = builder.relu(builder.conv("head.project", both, FEATURES))
    return builder.conv("classify", x, CLASSES, gain=1.0, is_normalised=False)
