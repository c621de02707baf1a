"""MobileBERT: Sun et al., 2020 (arXiv:2004.02984), table 1 and figure 1(c), with relu and NoNorm as in section 4.4.

Tensors between layers are [1, tokens, 512]; inside a block they are [1, tokens, 128].
"""

from __future__ import annotations

import onnx

from programs.networks.builder import RELU_GAIN, Builder, Value
from programs.networks.transformer import BRANCH_GAIN, attended, heads_of

FEATURES, INNER, HIDDEN = 512, 128, 512
HEADS = 4
FEED_FORWARDS = 4


def mobilebert_block(builder: Builder) -> onnx.ModelProto:
    """One of the 24 equal blocks, for 128 tokens."""
    return builder.model(states=block(builder, "block", builder.input("hidden", 128, FEATURES)))


def block(builder: Builder, name: str, x: Value) -> Value:
    """Attention and four times two linear layers, of a quarter of the features; q and k read these, v reads all."""
    narrow = _scaled(builder, f"{name}.narrow", builder.linear(f"{name}.narrow.linear", x, INNER))
    shared = _scaled(builder, f"{name}.shared", builder.linear(f"{name}.shared.linear", x, INNER))
    sources = {"q": shared, "k": shared, "v": x}
    attention = f"{name}.attention"
    q, k, v = (
        heads_of(builder, attention, part, builder.linear(f"{attention}.{part}", source, INNER), HEADS)
        for part, source in sources.items()
    )
    mixed = attended(builder, attention, q, k, v)
    out = builder.linear(f"{attention}.out", mixed, INNER, gain=BRANCH_GAIN)
    inner = _added(builder, attention, narrow, out)
    for at in range(FEED_FORWARDS):
        part = f"{name}.mlp{at}"
        hidden = builder.relu(builder.linear(f"{part}.up", inner, HIDDEN, gain=RELU_GAIN))
        inner = _added(builder, part, inner, builder.linear(f"{part}.down", hidden, INNER, gain=BRANCH_GAIN))
    return _added(builder, f"{name}.wide", x, builder.linear(f"{name}.wide.linear", inner, FEATURES, gain=BRANCH_GAIN))


def _added(builder: Builder, name: str, x: Value, branch: Value) -> Value:
    return _scaled(builder, name, builder.add(f"{name}.sum", x, branch))


def _scaled(builder: Builder, name: str, x: Value) -> Value:
    """NoNorm: section 4.4's γ ∘ h + β in place of a normalisation."""
    return builder.no_norm(f"{name}.norm", x)
