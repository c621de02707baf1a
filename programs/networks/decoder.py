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
from numpy.typing import NDArray

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


def stories_260k_step(builder: Builder) -> onnx.ModelProto:
    """The same for one token, with the keys and values of up to 64 before it."""
    return step(builder, STORIES_260K, 64)


def stories_260k_samples(model: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    """What that network reads while it goes through random texts."""
    rows = np.random.default_rng(0).standard_normal((STORIES_260K.words, STORIES_260K.features))
    return step_samples(model, STORIES_260K, 64, rows.astype(np.float32))


def stories_15m(builder: Builder) -> onnx.ModelProto:
    """The layers of stories15M for the first 64 tokens of a text: what comes after each of them."""
    return prefill(builder, STORIES_15M, 64)


def stories_15m_step(builder: Builder) -> onnx.ModelProto:
    """The same for one token, with the keys and values of up to 64 before it."""
    return step(builder, STORIES_15M, 64)


def stories_15m_samples(model: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    """What that network reads while it goes through a random text."""
    rows = np.random.default_rng(0).standard_normal((STORIES_15M.words, STORIES_15M.features))
    return step_samples(model, STORIES_15M, 64, rows.astype(np.float32), texts=1)


def prefill(builder: Builder, sizes: Decoder, tokens: int) -> onnx.ModelProto:
    """All tokens of a text at once; none sees those after it."""
    x = builder.input("embeddings", tokens, sizes.features)
    cos, sin = (table[:tokens][None, None] for table in turns(sizes, tokens))
    later = np.where(np.triu(np.ones((tokens, tokens)), 1) > 0, np.finfo(np.float32).min, 0)
    places = _TokenPlaces(
        builder.constant("cos", cos), builder.constant("sin", sin), builder.constant("mask", later[None, None])
    )
    for layer in range(sizes.layers):
        x, _ = _layer(builder, f"layer{layer}", x, sizes, places, None)
    return builder.model(logits=_logits(builder, x, sizes))


def step(builder: Builder, sizes: Decoder, length: int) -> onnx.ModelProto:
    """One token. Inputs are also the turns of its place (`turns`), a mask, and `length` keys and values of each layer.

    The mask is 0 for the places of the cache that are in use and for the token itself, which is the last. The token's
    own keys and values are results: the caller puts them into the cache.
    """
    x = builder.input("embeddings", 1, sizes.features)
    cos, sin = (builder.input(name, 1, 1, sizes.width) for name in ("cos", "sin"))
    places = _TokenPlaces(cos, sin, builder.input("mask", 1, 1, length + 1))
    results = {}
    for layer in range(sizes.layers):
        cache = _Cache(*(builder.input(f"{what}{layer}", sizes.sources, length, sizes.width) for what in CACHED))
        x, own = _layer(builder, f"layer{layer}", x, sizes, places, cache)
        results |= {f"new_{what}{layer}": value for what, value in zip(CACHED, (own.keys, own.values), strict=True)}
    return builder.model(logits=_logits(builder, x, sizes), **results)


CACHED = ("keys", "values")


def turns(sizes: Decoder, tokens: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The cosine and sine by which features of each place are turned: [tokens, features of a head]."""
    angles = np.arange(tokens)[:, None] / ROTATION_BASE ** (np.arange(0, sizes.width, 2) / sizes.width)
    both = np.concatenate([angles, angles], axis=1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def step_samples(
    model: onnx.ModelProto,
    sizes: Decoder,
    length: int,
    embeddings: NDArray[np.float32],
    texts: int = 2,
    words: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Inputs of a step while it reads texts that fill its cache: an array for each, samples first.

    `embeddings` is the table of the words' rows, [words, features]; `words` are the texts, [texts, length]. Without
    them there are so many random ones.
    """
    import onnxruntime

    if words is None:
        words = np.random.default_rng(0).integers(0, sizes.words, (texts, length))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    cached = [each.name for each in session.get_inputs() if each.name.startswith(CACHED)]
    cos, sin = turns(sizes, length)
    feeds = []
    for text in words:
        cache = {name: np.zeros((1, sizes.sources, length, sizes.width), np.float32) for name in cached}
        for place, word in enumerate(text):
            mask = np.where(np.arange(length + 1) < place, 0, np.finfo(np.float32).min).astype(np.float32)
            mask[-1] = 0
            rows = {"cos": cos[place], "sin": sin[place], "mask": mask}
            feed = {name: row[None, None, None] for name, row in rows.items()}
            feed |= {"embeddings": embeddings[word][None, None], **{name: each.copy() for name, each in cache.items()}}
            feeds.append(feed)
            made = session.run([f"new_{name}" for name in cached], feed)
            for name, own in zip(cached, made, strict=True):
                cache[name][:, :, place] = own[:, :, 0]
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


@dataclass(frozen=True, slots=True)
class _TokenPlaces:
    """What depends on where tokens stand."""

    cos: Value
    sin: Value
    mask: Value


@dataclass(frozen=True, slots=True)
class _Cache:
    """Keys and values, [1, sources, tokens, features of a head]."""

    keys: Value
    values: Value


def _layer(
    builder: Builder, name: str, x: Value, sizes: Decoder, places: _TokenPlaces, cache: _Cache | None
) -> tuple[Value, _Cache]:
    """Attention and two linear layers; and the tokens' own keys and values."""
    read = builder.rms_norm(f"{name}.attention.norm", x)
    mixed, own = _attention(builder, f"{name}.attention", read, sizes, places, cache)
    x = builder.add(f"{name}.attention.sum", x, mixed)
    read = builder.rms_norm(f"{name}.mlp.norm", x)
    return builder.add(f"{name}.mlp.sum", x, _gated(builder, f"{name}.mlp", read, sizes)), own


def _logits(builder: Builder, x: Value, sizes: Decoder) -> Value:
    return builder.linear("head", builder.rms_norm("norm", x), sizes.words, has_bias=False)


def _attention(
    builder: Builder, name: str, source: Value, sizes: Decoder, places: _TokenPlaces, cache: _Cache | None
) -> tuple[Value, _Cache]:
    """softmax(q kᵀ / √d + mask) v for each head, q and k turned by their places, and a linear layer."""
    q = _turned(builder, f"{name}.q", _heads(builder, f"{name}.q", source, sizes, sizes.heads), places)
    k = _turned(builder, f"{name}.k", _heads(builder, f"{name}.k", source, sizes, sizes.sources), places)
    v = _heads(builder, f"{name}.v", source, sizes, sizes.sources)
    own = _Cache(k, v)
    if cache is not None:
        k = builder.concat(f"{name}.k.all", cache.keys, k, axis=2)
        v = builder.concat(f"{name}.v.all", cache.values, v, axis=2)
    k, v = (builder.repeat_heads(f"{name}.{letter}", one, sizes.heads) for letter, one in (("k", k), ("v", v)))
    k = builder.transpose(f"{name}.k.turned", k, (0, 1, 3, 2))
    scores = builder.scaled(f"{name}.scaled", builder.matmul(f"{name}.scores", q, k), 1 / sqrt(sizes.width))
    shares = builder.softmax(f"{name}.softmax", builder.add(f"{name}.masked", scores, places.mask), axis=3)
    mixed = builder.matmul(f"{name}.mixed", shares, v)
    joined = builder.reshape(f"{name}.joined", builder.transpose(f"{name}.turned", mixed, (0, 2, 1, 3)), source.shape)
    return builder.linear(f"{name}.out", joined, sizes.features, gain=BRANCH_GAIN, has_bias=False), own


def _heads(builder: Builder, name: str, source: Value, sizes: Decoder, heads: int) -> Value:
    """A linear layer, as [1, heads, tokens, features of a head]."""
    made = builder.linear(name, source, heads * sizes.width, has_bias=False)
    split = builder.reshape(f"{name}.split", made, (1, source.shape[1], heads, sizes.width))
    return builder.transpose(f"{name}.heads", split, (0, 2, 1, 3))


def _turned(builder: Builder, name: str, source: Value, places: _TokenPlaces) -> Value:
    """Each pair of features, which are half a head apart, turned by the angle of its place and pair."""
    first, second = builder.split(f"{name}.halves", source, 2, axis=3)
    swapped = builder.concat(f"{name}.swapped", builder.negative(second), first, axis=3)
    straight = builder.mul(f"{name}.straight", source, places.cos)
    return builder.add(f"{name}.rotated", straight, builder.mul(f"{name}.across", swapped, places.sin))


def _gated(builder: Builder, name: str, source: Value, sizes: Decoder) -> Value:
    """down(silu(gate(x)) · up(x)): Shazeer, 2020 (arXiv:2002.05202)."""
    gate = builder.linear(f"{name}.gate", source, sizes.hidden, gain=RELU_GAIN, has_bias=False)
    up = builder.linear(f"{name}.up", source, sizes.hidden, gain=LINEAR_GAIN, has_bias=False)
    open_gate = builder.mul(f"{name}.silu", gate, builder.sigmoid(gate))
    gated = builder.mul(f"{name}.gated", open_gate, up)
    return builder.linear(f"{name}.down", gated, sizes.features, gain=BRANCH_GAIN, has_bias=False)
