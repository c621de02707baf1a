"""Whisper's encoder: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022
(arXiv:2212.04356), figure 1 and table 1, in the size `tiny`.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from programs.networks.builder import Builder, Value
from programs.networks.transformer import Encoder, encoder

BANDS, FRAMES = 80, 3000
"""Of the log-Mel spectrogram of 30 seconds."""

TINY = Encoder(layers=4, features=384, heads=6, hidden=1536, has_key_bias=False)
SLOWEST = 10000.0
"""Sinusoids from one turn in 2π places to one in 2π · this many: Vaswani et al. (arXiv:1706.03762), section 3.5."""


def whisper_tiny_encoder(builder: Builder) -> onnx.ModelProto:
    """Thirty seconds of sound to 1500 states."""
    x = stem(builder, builder.input("mel", BANDS, FRAMES), TINY)
    return builder.model(states=builder.layer_norm("norm", encoder(builder, x, TINY)))


def stem(builder: Builder, mel: Value, sizes: Encoder) -> Value:
    """Two convolutions over time, the second of every other place; and what says which place it is."""
    x = builder.gelu(builder.conv("conv1", mel, sizes.features, 3, is_normalised=False))
    x = builder.gelu(builder.conv("conv2", x, sizes.features, 3, stride=2, is_normalised=False))
    x = builder.transpose("tokens", x, (0, 2, 1))
    return builder.with_constant("Add", "placed", x, places(*x.shape[1:])[None])


def places(count: int, features: int) -> NDArray[np.float32]:
    """[count, features]: sines in the first half of the features, cosines in the second."""
    half = features // 2
    angles = np.arange(count)[:, None] / SLOWEST ** (np.arange(half) / (half - 1))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
