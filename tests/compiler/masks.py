"""Softmax of scores of which some count for nothing, as models write it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import ModelBuilder

WAYS = ("added", "added first", "chosen", "chosen otherwise")


def causal(tokens: int) -> NDArray[np.bool_]:
    """A token counts for itself and for those after it."""
    return np.tril(np.ones((tokens, tokens), bool))


def masked_model(
    shape: Sequence[int], kept: NDArray[np.bool_], way: str = "added", axis: int = -1, least: float = -1e9
) -> onnx.ModelProto:
    """Scores of a shape, and where they count; `least` stands in for or is added to the others."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    added = np.where(kept, 0, least).astype(np.float32)
    match way:
        case "added":
            scores = builder.node("Add", [x, builder.constant("mask", added)], name="mask.node")
        case "added first":
            scores = builder.node("Add", [builder.constant("mask", added), x], name="mask.node")
        case "chosen":
            operands = [builder.constant("mask", kept), x, builder.constant("least", np.float32(least))]
            scores = builder.node("Where", operands, name="mask.node")
        case _:
            operands = [builder.constant("mask", ~kept), builder.constant("least", np.float32(least)), x]
            scores = builder.node("Where", operands, name="mask.node")
    y = builder.node("Softmax", [scores], name="softmax", axis=axis)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    return builder.build("masked")


def model_with_mask_input(
    shape: Sequence[int], mask: Sequence[int], scale: float = 1e36, zero: int = 127
) -> onnx.ModelProto:
    """Scores, and a second input that is added to them: 0 where they count, and a very small number elsewhere."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    added = builder.quantize(builder.input("mask", mask), scale, zero, name="mask.q")
    y = builder.node("Softmax", [builder.node("Add", [x, added], name="mask.node")], name="softmax", axis=-1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    return builder.build("masked")


def mask_of(kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    return np.where(kept, 0, np.finfo(np.float32).min).astype(np.float32)
