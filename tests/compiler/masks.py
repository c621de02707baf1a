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


PLACES = ("added one by one", "added to each other", "chosen, then added", "added, then chosen")


def model_with_two_masks(
    shape: Sequence[int], constant: NDArray[np.bool_], mask: Sequence[int], place: str, *more: Sequence[int]
) -> onnx.ModelProto:
    """Scores, a constant mask and a second input that is one, as exporters add them; `more` are inputs, too."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    shapes = {"mask": mask, **{f"mask{index}": each for index, each in enumerate(more, 2)}}
    first, *others = (builder.quantize(builder.input(n, s), 1e36, 127, name=f"{n}.q") for n, s in shapes.items())
    least = np.float32(-1e9)
    known = builder.constant("known", np.where(constant, 0, least).astype(np.float32))
    for other in others:
        first = builder.node("Add", [first, other])
    match place:
        case "added one by one":
            scores = builder.node("Add", [builder.node("Add", [x, known]), first])
        case "added to each other":
            scores = builder.node("Add", [builder.node("Add", [first, known]), x])
        case "chosen, then added":
            operands = [builder.constant("there", constant), x, builder.constant("least", least)]
            scores = builder.node("Add", [builder.node("Where", operands), first])
        case _:
            operands = [builder.constant("not there", ~constant), builder.constant("least", least)]
            scores = builder.node("Where", [*operands, builder.node("Add", [x, first])])
    y = builder.node("Softmax", [scores], name="softmax", axis=-1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    return builder.build("masked")


def mask_of(kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    return np.where(kept, 0, np.finfo(np.float32).min).astype(np.float32)
