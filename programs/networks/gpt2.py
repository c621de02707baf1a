"""GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, in the smallest of its sizes."""

from __future__ import annotations

import numpy as np
import onnx

from programs.networks.builder import RELU_GAIN, Builder, Value
from programs.networks.transformer import BRANCH_GAIN, attended, heads_of

FEATURES, HEADS, HIDDEN = 768, 12, 3072


def gpt2_block(builder: Builder) -> onnx.ModelProto:
    """One of the 12 equal blocks, for a text of 128 words: none sees those after it."""
    return builder.model(states=block(builder, "block", builder.input("hidden", 128, FEATURES)))


def block(builder: Builder, name: str, x: Value) -> Value:
    """Normalisations stand before each branch; q, k and v are one linear layer; the GELU is that with a tanh."""
    tokens = x.shape[1]
    later = np.where(np.triu(np.ones((tokens, tokens)), 1) > 0, np.finfo(np.float32).min, 0)
    mask = builder.constant("mask", later[None, None])
    read = builder.layer_norm(f"{name}.attention.norm", x)
    attention = f"{name}.attention"
    made = builder.split(f"{attention}.qkv", builder.linear(f"{attention}.qkv.linear", read, 3 * FEATURES), 3, axis=2)
    q, k, v = (heads_of(builder, attention, part, one, HEADS) for part, one in zip("qkv", made, strict=True))
    out = builder.linear(f"{attention}.out", attended(builder, attention, q, k, v, mask), FEATURES, gain=BRANCH_GAIN)
    x = builder.add(f"{name}.attention.sum", x, out)
    read = builder.layer_norm(f"{name}.mlp.norm", x)
    hidden = builder.gelu_tanh(builder.linear(f"{name}.mlp.up", read, HIDDEN, gain=RELU_GAIN))
    return builder.add(f"{name}.mlp.sum", x, builder.linear(f"{name}.mlp.down", hidden, FEATURES, gain=BRANCH_GAIN))
