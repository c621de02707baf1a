"""The trained decoder in ONNX: for a whole text and for one character after others, in float32 and in int8."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

import tilewright
from programs.decoder.network import LENGTH, SIZES, TABLE, Array, Weights, shapes
from programs.decoder.text import FOLDER, encode, stored
from programs.networks.builder import Builder
from programs.networks.decoder import CACHED, prefill, step, step_samples, turns
from tilewright.generation import Generated, generate

PLACES = LENGTH - 1
"""Of the cache: with the character itself, the scores are whole words."""

STEP = FOLDER / "step_int8.onnx"

CACHE = {f"{what}{layer}": f"new_{what}{layer}" for layer in range(SIZES.layers) for what in CACHED}
"""What `tilewright.generate` has to know of a step."""

CALIBRATION_TEXTS = 8
"""That a step reads, of `LENGTH` characters; the network for a whole text reads all of them."""


@cache
def load_weights() -> Weights:
    """The weights that training found."""
    with np.load(FOLDER / "weights.npz") as stored_weights:
        return {name: stored_weights[name].astype(np.float32) for name in shapes()}


@cache
def float_prefill() -> onnx.ModelProto:
    """`LENGTH` characters at once: what comes after each of them."""
    return with_weights(prefill(Builder("decoder"), SIZES, LENGTH), load_weights())


@cache
def float_step() -> onnx.ModelProto:
    """One character, with the keys and values of those before it."""
    return with_weights(step(Builder("decoder"), SIZES, PLACES), load_weights())


@cache
def int8_prefill() -> onnx.ModelProto:
    """`float_prefill`, quantised."""
    return tilewright.quantize(float_prefill(), {"embeddings": load_weights()[TABLE][calibration()]}).model


def int8_step() -> onnx.ModelProto:
    """`float_step`, quantised: what `STEP` is."""
    words = calibration()[:CALIBRATION_TEXTS, :PLACES]
    samples = step_samples(float_step(), SIZES, PLACES, load_weights()[TABLE], words=words)
    return tilewright.quantize(float_step(), samples).model


def calibration() -> NDArray[np.int64]:
    """Characters that were learned, [texts, LENGTH]."""
    tokens = encode(stored("calibration"))
    return tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH)


def inputs(token: int, place: int) -> dict[str, Array]:
    """What a step reads beside its cache: the character's row of the table, and the turns of its place."""
    cos, sin = (table[place][None, None, None] for table in turns(SIZES, LENGTH))
    return {"embeddings": load_weights()[TABLE][token][None, None], "cos": cos, "sin": sin}


def continued(
    program: tilewright.Program,
    prompt: NDArray[np.int64],
    count: int,
    choose: Callable[[NDArray[Any]], int],
    on: str = "sim",
) -> Generated:
    """A text and what a compiled step writes after it, as `tilewright.generate` gives it."""
    return generate(program, prompt.tolist(), count, inputs=inputs, cache=CACHE, choose=choose, on=on)


def with_weights(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """The network with these numbers in place of its random ones. Raises ValueError if they are not those it has."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    parameters = {each.name: each for each in made.graph.initializer if each.name.endswith((".weight", ".scale"))}
    given = {name: each for name, each in weights.items() if name != TABLE}
    found = {name: tuple(each.dims) for name, each in parameters.items()}
    if found != {name: each.shape for name, each in given.items()}:
        unequal = sorted(set(found.items()) ^ {(name, each.shape) for name, each in given.items()})
        raise ValueError(f"network and weights differ in {unequal}")
    for name, each in given.items():
        parameters[name].CopyFrom(numpy_helper.from_array(each, name))
    return made
