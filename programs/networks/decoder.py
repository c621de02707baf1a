"""Transformer decoders: Touvron et al., "Llama 2", 2023 (arXiv:2307.09288), in the sizes of the TinyStories networks.

Tensors between layers are [1, tokens, features]. Operators stand as exporters write them: a normalisation is seven
nodes, a rotation of features is a Split, a Neg, a Concat, two Muls and an Add. A token's row of the table of embeddings
is the host's, and so is the choice of the next token.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import onnx

from programs.networks.builder import LINEAR_GAIN, RELU_GAIN, Builder, Value
from programs.networks.transformer import BRANCH_GAIN

ROTATION_BASE = 10000.0
"""Su et al., "RoFormer", 2021 (arXiv:2104.09864): feature pair i turns by position / base^(2i / features of a head)."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a stack of equal layers; several heads share the keys and values of one of `sources`."""

    layers: int
    features: int
    heads: int
    sources: int
    hidden: int
    words: int

    @property
    def width(self) -> int:
        """Features of a head."""
        return self.features // self.heads


STORIES_260K = Decoder(layers=5, features=64, heads=8, sources=4, hidden=172, words=512)
STORIES_15M = Decoder(layers=6, features=288, heads=6, sources=6, hidden=768, words=32000)
"""https://huggingface.co/karpathy/tinyllamas: stories260K and stories15M."""


def stories_260k(builder: Builder) -> onnx.ModelProto:
    """The layers of stories260K for the first 64 tokens of a text: what comes after each of them."""
    return prefill(builder, STORIES_260K, 64)


def prefill(builder: Builder, sizes: Decoder, tokens: int) -> onnx.ModelProto:
    """All tokens of a text at once; none sees those after it."""
    x = builder.input("embeddings", tokens, sizes.features)
    angles = np.arange(tokens)[:, None] / ROTATION_BASE ** (np.arange(0, sizes.width, 2) / sizes.width)
    both = np.concatenate([angles, angles], axis=1)[None, None]
    turn = builder.constant("cos", np.cos(both)), builder.constant("sin", np.sin(both))
    later = np.where(np.triu(np.ones((tokens, tokens)), 1) > 0, np.finfo(np.float32).min, 0)
    mask = builder.constant("mask", later[None, None])
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        read = builder.rms_norm(f"{name}.attention.norm", x)
        x = builder.add(f"{name}.attention.sum", x, _attention(builder, f"{name}.attention", read, sizes, turn, mask))
        read = builder.rms_norm(f"{name}.mlp.norm", x)
        x = builder.add(f"{name}.mlp.sum", x, _gated(builder, f"{name}.mlp", read, sizes))
    return builder.model(logits=builder.linear("head", builder.rms_norm("norm", x), sizes.words, has_bias=False))


def _attention(
    builder: Builder, name: str, source: Value, sizes: Decoder, turn: tuple[Value, Value], mask: Value
) -> Value:
    """softmax(q kᵀ / √d + mask) v for each head, q and k turned by their places, and a linear layer."""
    q = _turned(builder, f"{name}.q", _heads(builder, f"{name}.q", source, sizes, sizes.heads), turn)
    k = _turned(builder, f"{name}.k", _heads(builder, f"{name}.k", source, sizes, sizes.sources), turn)
    v = _heads(builder, f"{name}.v", source, sizes, sizes.sources)
    k, v = (builder.repeat_heads(f"{name}.{letter}", one, sizes.heads) for letter, one in (("k", k), ("v", v)))
    k = builder.transpose(f"{name}.k.turned", k, (0, 1, 3, 2))
    scores = builder.scaled(f"{name}.scaled", builder.matmul(f"{name}.scores", q, k), 1 / sqrt(sizes.width))
    shares = builder.softmax(f"{name}.softmax", builder.add(f"{name}.masked", scores, mask), axis=3)
    mixed = builder.matmul(f"{name}.mixed", shares, v)
    joined = builder.reshape(f"{name}.joined", builder.transpose(f"{name}.turned", mixed, (0, 2, 1, 3)), source.shape)
    return builder.linear(f"{name}.out", joined, sizes.features, gain=BRANCH_GAIN, has_bias=False)


def _heads(builder: Builder, name: str, source: Value, sizes: Decoder, heads: int) -> Value:
    """A linear layer, as [1, heads, tokens, features of a head]."""
    made = builder.linear(name, source, heads * sizes.width, has_bias=False)
    split = builder.reshape(f"{name}.split", made, (1, source.shape[1], heads, sizes.width))
    return builder.transpose(f"{name}.heads", split, (0, 2, 1, 3))


def _turned(builder: Builder, name: str, source: Value, turn: tuple[Value, Value]) -> Value:
    """Each pair of features, which are half a head apart, turned by the angle of its place and pair."""
    cos, sin = turn
    first, second = builder.split(f"{name}.halves", source, 2, axis=3)
    swapped = builder.concat(f"{name}.swapped", builder.negative(second), first, axis=3)
    straight = builder.mul(f"{name}.straight", source, cos)
    return builder.add(f"{name}.rotated", straight, builder.mul(f"{name}.across", swapped, sin))


def _gated(builder: Builder, name: str, source: Value, sizes: Decoder) -> Value:
    """down(silu(gate(x)) · up(x)): Shazeer, 2020 (arXiv:2002.05202)."""
    gate = builder.linear(f"{name}.gate", source, sizes.hidden, gain=RELU_GAIN, has_bias=False)
    up = builder.linear(f"{name}.up", source, sizes.hidden, gain=LINEAR_GAIN, has_bias=False)
    open_gate = builder.mul(f"{name}.silu", gate, builder.sigmoid(gate))
    gated = builder.mul(f"{name}.gated", open_gate, up)
    return builder.linear(f"{name}.down", gated, sizes.features, gain=BRANCH_GAIN, has_bias=False)
