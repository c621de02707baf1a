"""Two networks of MLPerf Tiny for sound (Banbury et al., "MLPerf Tiny Benchmark", 2021, arXiv:2106.07597)."""

from __future__ import annotations

import onnx

from programs.networks.builder import RELU_GAIN, Builder


def ds_cnn(builder: Builder) -> onnx.ModelProto:
    """Keyword spotting: DS-CNN (Zhang et al., "Hello Edge", 2017, arXiv:1711.07128), 49 frames of 10 coefficients."""
    x = builder.input("features", 1, 49, 10)
    x = builder.relu(builder.conv("conv", x, 64, (10, 4), stride=2, padding="same"))
    for block in range(4):
        x = builder.relu(builder.depthwise(f"block{block}.depthwise", x))
        x = builder.relu(builder.conv(f"block{block}.pointwise", x, 64))
    x = builder.flatten(builder.average_pool("average", x, (25, 5)))
    return builder.model(scores=builder.softmax("softmax", builder.dense("dense", x, 12)))


def autoencoder(builder: Builder) -> onnx.ModelProto:
    """Anomaly detection: a dense autoencoder of five frames of 128 coefficients, 8 features in the middle."""
    x = builder.input("features", 640)
    for layer, features in enumerate((128, 128, 128, 128, 8, 128, 128, 128, 128)):
        x = builder.relu(builder.dense(f"dense{layer}", x, features, gain=RELU_GAIN, is_normalised=True))
    return builder.model(reconstruction=builder.dense("dense9", x, 640))
