"""The decoder in numpy, for training: what it makes of a text, and how that changes with its weights.

    token → row of the table [64] → three layers → normalisation → linear layer → logits [96]

A layer is x + attention(norm(x)), then x + mlp(norm(x)): Touvron et al., "Llama 2", 2023 (arXiv:2307.09288). Weights
have the names and shapes that programs/networks/decoder.py gives them.

Each function gives its result, and a function for the way back: from the gradient of the result to that of its input.
On its way, the latter puts the gradients of weights into a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from programs.networks.decoder import Decoder, turns

Array = NDArray[np.float32]
Weights = dict[str, Array]
Back = Callable[[Array], Array]

SIZES = Decoder(layers=3, features=64, heads=4, sources=2, hidden=160, words=96)
LENGTH = 128
"""Tokens that the decoder sees at once."""

DROPPED = 0.1
"""Of what a branch gives, in training: Srivastava et al., 2014, "Dropout"."""

EPSILON = np.float32(1e-5)
TABLE = "embeddings"


def shapes(sizes: Decoder = SIZES) -> dict[str, tuple[int, ...]]:
    """Name of a weight → its shape: [inputs, outputs] of a linear layer, [features] of a normalisation."""
    shared = sizes.sources * sizes.width
    layer = {
        "attention.norm.scale": (sizes.features,),
        "attention.q.weight": (sizes.features, sizes.features),
        "attention.k.weight": (sizes.features, shared),
        "attention.v.weight": (sizes.features, shared),
        "attention.out.weight": (sizes.features, sizes.features),
        "mlp.norm.scale": (sizes.features,),
        "mlp.gate.weight": (sizes.features, sizes.hidden),
        "mlp.up.weight": (sizes.features, sizes.hidden),
        "mlp.down.weight": (sizes.hidden, sizes.features),
    }
    layers = {f"layer{at}.{name}": shape for at in range(sizes.layers) for name, shape in layer.items()}
    ends = {"norm.scale": (sizes.features,), "head.weight": (sizes.features, sizes.words)}
    return {TABLE: (sizes.words, sizes.features), **layers, **ends}


def initial_weights(random: np.random.Generator, sizes: Decoder = SIZES) -> Weights:
    """Normally distributed, so that each layer keeps the variance; branches add little at first."""
    weights: Weights = {}
    for name, shape in shapes(sizes).items():
        if name.endswith(".scale"):
            weights[name] = np.ones(shape, np.float32)
            continue
        deviation = 1.0 if name == TABLE else 1 / sqrt(shape[0])
        if name.endswith(("out.weight", "down.weight")):
            deviation /= sqrt(2 * sizes.layers)
        weights[name] = (deviation * random.standard_normal(shape)).astype(np.float32)
    return weights


def loss_and_gradients(
    weights: Weights, tokens: NDArray[np.int64], sizes: Decoder = SIZES, random: np.random.Generator | None = None
) -> tuple[float, Weights]:
    """How far the decoder is from the next tokens, in nats each, over texts [texts, length + 1]; and its gradients.

    With `random`, a tenth of what each branch gives is dropped.
    """
    gradients: Weights = {}
    before, after = tokens[:, :-1], tokens[:, 1:].reshape(-1)
    logits, back = forward(weights, gradients, before, sizes, random)
    each = np.arange(len(after))
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    totals = shares.sum(axis=1, keepdims=True)
    loss = float((np.log(totals[:, 0]) - logits[each, after]).mean())
    shares /= totals
    shares[each, after] -= 1
    shares /= np.float32(len(after))
    back(shares)
    return loss, gradients


def forward(
    weights: Weights,
    gradients: Weights,
    tokens: NDArray[np.int64],
    sizes: Decoder = SIZES,
    random: np.random.Generator | None = None,
) -> tuple[Array, Back]:
    """Logits [texts · length, words] of texts [texts, length]."""
    backs: list[Back] = []
    x = weights[TABLE][tokens.reshape(-1)]
    for layer in range(sizes.layers):
        for part in (_attention, _mlp):
            made, back = part(weights, gradients, f"layer{layer}", x, tokens.shape, sizes)
            if random is not None:
                made, back = _thinned(made, back, random)
            x = x + made
            backs.append(back)
    even, back_norm = _norm(weights, gradients, "norm", x)
    logits, back_head = _linear(weights, gradients, "head", even)

    def back(slope: Array) -> Array:
        slope = back_norm(back_head(slope))
        for each in reversed(backs):
            slope = slope + each(slope)
        rows = np.zeros_like(weights[TABLE])
        np.add.at(rows, tokens.reshape(-1), slope)
        gradients[TABLE] = rows
        return slope

    return logits, back


def _thinned(made: Array, back: Back, random: np.random.Generator) -> tuple[Array, Back]:
    """A tenth of the values dropped, the others larger by as much."""
    kept = (random.random(made.shape, np.float32) >= DROPPED) / np.float32(1 - DROPPED)
    return made * kept, lambda slope: back(slope * kept)


def _linear(weights: Weights, gradients: Weights, name: str, x: Array) -> tuple[Array, Back]:
    weight = weights[f"{name}.weight"]

    def back(slope: Array) -> Array:
        gradients[f"{name}.weight"] = x.T @ slope
        return slope @ weight.T

    return x @ weight, back


def _norm(weights: Weights, gradients: Weights, name: str, x: Array) -> tuple[Array, Back]:
    """x / √(mean of x² + ε) times the scales."""
    scale = weights[f"{name}.scale"]
    over = 1 / np.sqrt(np.einsum("nf,nf->n", x, x)[:, None] / np.float32(x.shape[1]) + EPSILON)
    even = x * over

    def back(slope: Array) -> Array:
        gradients[f"{name}.scale"] = np.einsum("nf,nf->f", slope, even)
        slope = slope * scale
        along = np.einsum("nf,nf->n", slope, even)[:, None] / np.float32(x.shape[1])
        return over * (slope - even * along)

    return even * scale, back


def _mlp(
    weights: Weights, gradients: Weights, layer: str, x: Array, _shape: tuple[int, ...], _sizes: Decoder
) -> tuple[Array, Back]:
    """down(silu(gate(x)) · up(x)): Shazeer, 2020 (arXiv:2002.05202)."""
    name = f"{layer}.mlp"
    even, back_norm = _norm(weights, gradients, f"{name}.norm", x)
    gate, back_gate = _linear(weights, gradients, f"{name}.gate", even)
    up, back_up = _linear(weights, gradients, f"{name}.up", even)
    sigmoid = 1 / (1 + np.exp(-gate))
    silu = gate * sigmoid
    down, back_down = _linear(weights, gradients, f"{name}.down", silu * up)

    def back(slope: Array) -> Array:
        slope = back_down(slope)
        to_gate = slope * up * (sigmoid + silu * (1 - sigmoid))
        return back_norm(back_gate(to_gate) + back_up(slope * silu))

    return down, back


def _attention(
    weights: Weights, gradients: Weights, layer: str, x: Array, shape: tuple[int, ...], sizes: Decoder
) -> tuple[Array, Back]:
    """softmax(q kᵀ / √d) v over the tokens up to each one. Heads that share keys are rows of one product."""
    name = f"{layer}.attention"
    texts, length = shape
    shared, width = sizes.heads // sizes.sources, sizes.width
    cos, sin = turns(sizes, length)
    split = (texts, length, sizes.sources, -1, width)
    rows = (texts, sizes.sources, -1, width)
    even, back_norm = _norm(weights, gradients, f"{name}.norm", x)
    made = {letter: _linear(weights, gradients, f"{name}.{letter}", even) for letter in "qkv"}
    apart = {letter: value.reshape(split).transpose(0, 2, 3, 1, 4) for letter, (value, _) in made.items()}
    q, k = (_turned(apart[letter], cos, sin).reshape(rows) for letter in "qk")
    v = np.ascontiguousarray(apart["v"]).reshape(rows)
    factor = np.float32(1 / sqrt(width))
    later = np.tile(np.triu(np.full((length, length), -np.inf, np.float32), 1), (shared, 1))
    scores = q @ k.swapaxes(2, 3)
    scores *= factor
    scores += later
    scores -= scores.max(axis=3, keepdims=True)
    shares = np.exp(scores, out=scores)
    shares /= shares.sum(axis=3, keepdims=True)
    mixed = (shares @ v).reshape(texts, sizes.sources, shared, length, width).transpose(0, 3, 1, 2, 4)
    out, back_out = _linear(weights, gradients, f"{name}.out", mixed.reshape(texts * length, -1))

    def back(slope: Array) -> Array:
        slope = back_out(slope).reshape(split).transpose(0, 2, 3, 1, 4).reshape(rows)
        to_v = shares.swapaxes(2, 3) @ slope
        to_scores = slope @ v.swapaxes(2, 3)
        to_scores -= np.einsum("ghrt,ghrt->ghr", to_scores, shares)[..., None]
        to_scores *= shares
        to_scores *= factor
        slopes = {"q": to_scores @ k, "k": to_scores.swapaxes(2, 3) @ q, "v": to_v}
        total = np.zeros_like(even)
        for letter, each in slopes.items():
            each = each.reshape(texts, sizes.sources, -1, length, width)
            if letter != "v":
                each = _turned(each, cos, -sin)
            total += made[letter][1](each.transpose(0, 3, 1, 2, 4).reshape(texts * length, -1))
        return back_norm(total)

    return out, back


def _turned(x: Array, cos: Array, sin: Array) -> Array:
    """Pairs of features, half a head apart, turned by the angle of place and pair; by -sin, turned back."""
    first, second = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-second, first], axis=-1) * sin
