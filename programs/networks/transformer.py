"""Transformer encoders: Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762).

Tensors between layers are [1, tokens, features], as exporters write them: a linear layer is a MatMul and an Add, heads
are split by a Reshape and a Transpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import onnx

from programs.networks.builder import LINEAR_GAIN, RELU_GAIN, Builder, Value

BRANCH_GAIN = 0.3
"""What a branch adds to the sum it goes into, so that sums do not grow from layer to layer."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """The sizes of a stack of equal layers."""

    layers: int
    features: int
    heads: int
    hidden: int
    is_normalised_first: bool = True  # or after each sum, as in the first paper
    has_bias: bool = True  # in q, k and v; `has_key_bias` in k as well
    has_key_bias: bool = True


def vit_tiny(builder: Builder) -> onnx.ModelProto:
    """ViT-Tiny/16 at 224×224: Dosovitskiy et al., 2021 (arXiv:2010.11929); sizes of Steiner et al., 2022.

    DeiT-Tiny (Touvron et al., 2021, arXiv:2012.12877) has the same layers; the two differ in how they are trained.
    """
    sizes = Encoder(layers=12, features=192, heads=3, hidden=768)
    patches = builder.conv(
        "patches", builder.input("image", 3, 224, 224), sizes.features, 16, stride=16, padding="valid",
        gain=LINEAR_GAIN, is_normalised=False,
    )  # fmt: skip
    _, features, height, width = patches.shape
    tokens = builder.transpose("tokens", builder.reshape("rows", patches, (1, features, height * width)), (0, 2, 1))
    x = _with_class_token(builder, tokens)
    x = builder.layer_norm("norm", encoder(builder, x, sizes))
    return builder.model(logits=builder.dense("head", _first_token(builder, x), 1000))


def kwt_1(builder: Builder) -> onnx.ModelProto:
    """KWT-1: Berg, O'Connor and Cruz, "Keyword Transformer", 2021 (arXiv:2104.00769), 12 words.

    A token is a column of 40 cepstral coefficients; layers are normalised after each sum.
    """
    sizes = Encoder(layers=12, features=64, heads=1, hidden=256, is_normalised_first=False, has_bias=False)
    x = builder.linear("patches", builder.input("coefficients", 98, 40), sizes.features)
    x = encoder(builder, _with_class_token(builder, x), sizes)
    return builder.model(logits=builder.dense("head", _first_token(builder, x), 12))


def bert_tiny(builder: Builder) -> onnx.ModelProto:
    """BERT-Tiny's layers, for 128 tokens: Turc et al., 2019 (arXiv:1908.08962). The input is the embeddings' sum.

    Which rows of its tables a token takes is the host's: the table has 3.9 million of its 4.4 million parameters.
    """
    sizes = Encoder(layers=2, features=128, heads=2, hidden=512, is_normalised_first=False)
    x = builder.layer_norm("norm", builder.input("embeddings", 128, sizes.features))
    return builder.model(states=encoder(builder, x, sizes))


def _with_class_token(builder: Builder, tokens: Value) -> Value:
    """A learned token in front of the others, and a learned vector for each place added to all."""
    _, count, features = tokens.shape
    token = builder.parameter("class_token", (1, 1, features), gain=1.0)
    joined = builder.concat("joined", token, tokens)
    return builder.add("placed", joined, builder.parameter("places", (1, count + 1, features), gain=0.5))


def _first_token(builder: Builder, tokens: Value) -> Value:
    return builder.flatten(builder.first("first", tokens))


def encoder(builder: Builder, x: Value, sizes: Encoder) -> Value:
    """Layers of self-attention and of two linear layers with a GELU between them."""
    for layer in range(sizes.layers):
        for part, branch in ((f"layer{layer}.attention", attention), (f"layer{layer}.mlp", _two_layers)):
            read = builder.layer_norm(f"{part}.norm", x) if sizes.is_normalised_first else x
            x = builder.add(f"{part}.sum", x, branch(builder, part, read, sizes))
            if not sizes.is_normalised_first:
                x = builder.layer_norm(f"{part}.norm", x)
    return x


def attention(builder: Builder, name: str, source: Value, sizes: Encoder) -> Value:
    """softmax(q kᵀ / √d) v for each head, and a linear layer."""
    features = source.shape[-1]
    biases = {"q": sizes.has_bias, "k": sizes.has_bias and sizes.has_key_bias, "v": sizes.has_bias}
    q, k, v = (
        heads_of(builder, name, part, builder.linear(f"{name}.{part}", source, features, has_bias=has), sizes.heads)
        for part, has in biases.items()
    )
    return builder.linear(f"{name}.out", attended(builder, name, q, k, v), features, gain=BRANCH_GAIN)


def heads_of(builder: Builder, name: str, part: str, made: Value, heads: int) -> Value:
    """[1, tokens, features] as [1, heads, tokens, features of a head]; k as [1, heads, features of a head, tokens]."""
    _, tokens, features = made.shape
    split = builder.reshape(f"{name}.{part}.split", made, (1, tokens, heads, features // heads))
    return builder.transpose(f"{name}.{part}.heads", split, (0, 2, 3, 1) if part == "k" else (0, 2, 1, 3))


def attended(builder: Builder, name: str, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
    """softmax(q kᵀ / √d + mask) v for each head, and the heads side by side: [1, tokens, features]."""
    _, heads, tokens, width = q.shape
    scores = builder.scaled(f"{name}.scaled", builder.matmul(f"{name}.scores", q, k), 1 / sqrt(width))
    if mask is not None:
        scores = builder.add(f"{name}.masked", scores, mask)
    mixed = builder.matmul(f"{name}.mixed", builder.softmax(f"{name}.softmax", scores, axis=3), v)
    turned = builder.transpose(f"{name}.turned", mixed, (0, 2, 1, 3))
    return builder.reshape(f"{name}.joined", turned, (1, tokens, heads * width))


def _two_layers(builder: Builder, name: str, source: Value, sizes: Encoder) -> Value:
    hidden = builder.gelu(builder.linear(f"{name}.up", source, sizes.hidden, gain=RELU_GAIN))
    return builder.linear(f"{name}.down", hidden, sizes.features, gain=BRANCH_GAIN)
