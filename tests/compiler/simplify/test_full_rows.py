"""Rows of which masks leave nothing have ONNX Runtime's values, however the masks come and whatever they add."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.masks import PLACES, WAYS, causal, masked_model, model_with_mask_input, model_with_two_masks
from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import simplified, simulated, steps_apart
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

LEAST = float(np.finfo(np.float32).min)
VALUES = (-1e4, -65504.0, -1e5, -1e9, LEAST)
TOKENS = 12


def left_padded(places: int, tokens: int = TOKENS) -> NDArray[np.bool_]:
    """Causal, and the first places are padding: nothing is left of as many rows."""
    return causal(tokens) & (np.arange(tokens) >= places)


def furthest(model: onnx.ModelProto, inputs: dict[str, NDArray[np.float32]]) -> int:
    """In steps, between a program of the model and ONNX Runtime."""
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    with np.errstate(over="ignore"):
        expected = run_onnx(model, inputs)["result"]
    return int(steps_apart(simulated(program, inputs)["result"], expected, program.outputs[0]).max())


def scores(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(3).normal(0, 2, shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_constants_mask_whole_rows(way: str, value: float) -> None:
    model = masked_model((1, 2, TOKENS, TOKENS), left_padded(3), way, least=value)
    assert furthest(model, {"x": scores((1, 2, TOKENS, TOKENS))}) <= 1


def two_constants(first: float, second: float) -> onnx.ModelProto:
    """Padding and what comes later, each with a value of its own: of a full row the nearer stays."""
    model = masked_model((1, TOKENS, TOKENS), causal(TOKENS), least=first)
    padding = np.where(np.arange(TOKENS) < 2, np.float32(second), np.float32(0))
    known = next(tensor for tensor in model.graph.initializer if tensor.name == "mask")
    known.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(known) + padding, "mask"))
    return model


@pytest.mark.parametrize(("first", "second"), [(-1e9, -1e9), (-1e9, -2e9), (-1e4, -1e9), (-65504, -10000)])
def test_constants_of_several_values(first: float, second: float) -> None:
    assert furthest(two_constants(first, second), {"x": scores((1, TOKENS, TOKENS))}) <= 1


@pytest.mark.parametrize("value", [-1e4, -1e9])
def test_queries_of_rows_that_are_lost_are_zero(value: float) -> None:
    """The mask of a product, a scale in between: what loses its scores has equal ones."""
    builder, rng = ModelBuilder(np.random.default_rng(0)), np.random.default_rng(1)
    q, k = (builder.quantize(builder.input(name, (1, 2, TOKENS, 8)), 0.02, 1, name=f"{name}.q") for name in "qk")
    turned = builder.node("Transpose", [k], perm=[0, 1, 3, 2])
    product = builder.quantize(builder.node("MatMul", [q, turned]), 0.1, -3, name="product.q")
    scaled = builder.quantize(builder.node("Mul", [product, builder.constant("root", np.float32(0.35))]), 0.04, -3)
    mask = np.where(left_padded(3), np.float32(0), np.float32(value))
    sums = builder.node("Add", [scaled, builder.constant("mask", mask)])
    builder.output(builder.quantize(builder.node("Softmax", [sums], axis=-1), 1 / 256, -128, name="y.q"))
    given = {name: rng.normal(0, 1, (1, 2, TOKENS, 8)).astype(np.float32) for name in "qk"}
    assert furthest(builder.build("attention"), given) <= 1


def test_sums_that_round_scores_are_no_mask() -> None:
    with pytest.raises(CompileError):
        simplified(masked_model((1, TOKENS, TOKENS), left_padded(3), least=-1e6))


def computed_masks() -> Iterator[tuple[tuple[int, ...], float, float]]:
    """Shapes of masks, the steps in which they are quantised, and what they add."""
    for mask, (scale, value) in product(
        ((1, 1, TOKENS, TOKENS), (1, 1, 1, TOKENS), (TOKENS, TOKENS), (2, 2, TOKENS, TOKENS)),
        ((5000.0, -1e4), (5000.0, -65504.0), (1e9 / 255, -1e9), (1e36, LEAST)),
    ):
        yield mask, scale, value


@pytest.mark.parametrize(
    ("mask", "scale", "value"),
    [
        each if number % 5 == 0 else pytest.param(*each, marks=pytest.mark.slow)
        for number, each in enumerate(computed_masks())
    ],
)
def test_a_computed_mask_may_leave_nothing(mask: tuple[int, ...], scale: float, value: float) -> None:
    shape = (2, 2, TOKENS, TOKENS)
    model = model_with_mask_input(shape, mask, scale)
    kept = left_padded(3) if mask[-2] > 1 else np.zeros(TOKENS, bool)
    added = np.broadcast_to(np.where(kept, np.float32(0), np.float32(value)), mask)
    assert furthest(model, {"x": scores(shape), "mask": added}) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("more", [(), ((1, 1, TOKENS, TOKENS),)], ids=["one input", "two inputs"])
def test_several_masks_may_leave_nothing(place: str, more: tuple[tuple[int, ...], ...]) -> None:
    shape = (1, 3, TOKENS, TOKENS)
    model = model_with_two_masks(shape, causal(TOKENS), (1, 1, 1, TOKENS), place, *more)
    rng, masks = np.random.default_rng(5), {}
    for name, each in zip(("mask", "mask2"), ((1, 1, 1, TOKENS), *more), strict=False):
        kept = rng.random(each) < 0.7
        kept[..., :2] = False
        masks[name] = np.where(kept, np.float32(0), np.float32(-1e38))
    assert furthest(model, {"x": scores(shape), **masks}) <= 1


@pytest.mark.parametrize("tokens", [5, 20])
@pytest.mark.parametrize("rows", [1, 0], ids=["of keys", "of each row"])
def test_a_computed_mask_of_two_dimensions(rows: int, tokens: int) -> None:
    """Its words end with lanes that hold anything."""
    shape, kept = (1, 2, tokens, tokens), causal(tokens)[tokens // 2 :][:1] if rows else causal(tokens)
    model = model_with_mask_input(shape, kept.shape, 5000.0)
    added = np.where(kept, np.float32(0), np.float32(-1e4))
    assert furthest(model, {"x": scores(shape), "mask": added}) <= 1


@pytest.mark.parametrize("value", [0.0, -1e4])
def test_rows_that_keep_something_are_as_before(value: float) -> None:
    """Levels of a mask that is small count no less than others."""
    model = model_with_mask_input((1, 2, 8, 8), (1, 1, 1, 8), 5000.0)
    added = np.array([value] * 3 + [0.0] * 5, np.float32).reshape(1, 1, 1, 8)
    inputs = random_inputs(model, np.random.default_rng(4)) | {"mask": added}
    assert furthest(model, inputs) <= 1
