"""A token of which a mask leaves nothing: its row and the others keep their values, on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.models import run_onnx
from tests.tilewright.quantization.float_networks import FloatBuilder

TOKENS, FEATURES = 8, 16
VALUES = (-1e9, float(np.finfo(np.float32).min), -65504.0, -1e4, -1e6)
FORMS = ("a constant", "a constant that is chosen", "an input")
MACHINES = ("sequence16", "vector16", "base16")


def kept(padding: int) -> NDArray[np.bool_]:
    """Causal, with so many places of padding in front: as many rows keep nothing."""
    return np.tril(np.ones((TOKENS, TOKENS), bool)) & (np.arange(TOKENS) >= padding)


def attention(form: str, value: float) -> onnx.ModelProto:
    b = FloatBuilder()
    x = b.input("x", (1, TOKENS, FEATURES))
    q, k, v = (b.node("MatMul", name, x, b.normal(f"{name}.w", FEATURES, FEATURES, scale=0.3)) for name in "qkv")
    scores = b.node("MatMul", "scores", q, b.node("Transpose", "turned", k, perm=[0, 2, 1]))
    if form == "an input":
        scores = b.node("Add", "masked", scores, b.input("mask", (1, TOKENS, TOKENS)))
    elif form == "a constant":
        scores = b.node("Add", "masked", scores, b.constant("mask", np.where(kept(1), 0.0, value)[None]))
    else:
        scores = b.node(
            "Where", "masked", b.constant("kept", kept(1)[None]), scores, b.constant("least", np.array(value))
        )
    return b.build(b.node("MatMul", "mixed", b.node("Softmax", "softmax", scores, axis=-1), v))


def cases() -> Iterator[tuple[str, float, str]]:
    for form, value, isa in product(FORMS, VALUES, MACHINES):
        if (form, value) != ("an input", -1e6):  # float32 rounds scores beside it
            yield form, value, isa


def ratio(found: NDArray[np.float32], exact: NDArray[np.float32]) -> float:
    return float(10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()))


@pytest.mark.parametrize(
    ("form", "value", "isa"),
    [case if number in (0, 30) else pytest.param(*case, marks=pytest.mark.slow) for number, case in enumerate(cases())],
)
def test_every_row_keeps_its_values(form: str, value: float, isa: str) -> None:
    """No sample of a computed mask has such a row."""
    model, rng = attention(form, value), np.random.default_rng(5)
    data = {"x": rng.normal(size=(8, 1, TOKENS, FEATURES)).astype(np.float32)}
    feed = {"x": data["x"][0]}
    if form == "an input":
        data["mask"] = np.repeat(np.where(kept(0), 0, value).astype(np.float32)[None, None], 8, axis=0)
        feed["mask"] = np.where(kept(1), 0, value).astype(np.float32)[None]
    quantized = tilewright.quantize(model, data, strict=True)
    found = tilewright.compile(quantized.content, isa, effort=0).run(feed).outputs["mixed.out"]
    exact, in_onnx = (run_onnx(each, feed)["mixed.out"] for each in (model, quantized.model))
    assert ratio(found[:, 1:], exact[:, 1:]) > 22
    assert ratio(found[:, :1], exact[:, :1]) > 12
    assert np.abs(found - in_onnx).max() <= 0.02 * np.abs(exact).max()
