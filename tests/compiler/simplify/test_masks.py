"""Masks of a softmax: constants that are added or chosen become part of it, with ONNX Runtime's values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.compiler.masks import (
    PLACES,
    WAYS,
    causal,
    mask_of,
    masked_model,
    model_with_mask_input,
    model_with_two_masks,
)
from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import simplified, simulated, steps_apart
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize("least", [-10000.0, -1e9, float(np.finfo(np.float32).min), -np.inf])
@pytest.mark.parametrize("way", WAYS)
def test_a_causal_mask_is_part_of_the_softmax(way: str, least: float) -> None:
    model = masked_model((2, 3, 12, 12), causal(12), way, least=least)
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    assert softmax.attributes["mask"].shape == (1, 12, 1, 12)
    assert softmax.nodes[:2] == ("mask.node", "softmax")
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])


@pytest.mark.parametrize(
    ("shape", "mask", "axis", "stored"),
    [
        ((2, 10), (1, 10), 1, (1, 10, 1, 1)),
        ((2, 10), (2, 10), 1, (2, 10, 1, 1)),
        ((2, 10, 4), (10, 1), 1, (1, 10, 1, 4)),
        ((2, 3, 8, 5), (2, 1, 1, 5), -1, (6, 5, 1, 8)),
        ((1, 3, 8, 5), (1, 1, 8, 5), 2, (1, 8, 1, 5)),
    ],
)
def test_masks_of_any_dimensions(shape: Sequence[int], mask: Sequence[int], axis: int, stored: Sequence[int]) -> None:
    kept = np.random.default_rng(2).random(mask) < 0.6
    first = axis % len(shape) - (len(shape) - len(mask))
    kept[(slice(None),) * first + (0,)] = True
    model = masked_model(shape, kept, axis=axis)
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    assert softmax.attributes["mask"].shape == stored
    inputs = random_inputs(model, np.random.default_rng(3))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])


def test_what_is_added_besides_is_no_mask() -> None:
    """Such as a bias that grows with the distance."""
    kept = np.ones((12, 12), bool)
    model = masked_model((1, 12, 12), kept, least=0)
    bias = np.linspace(-2, 0, 144, dtype=np.float32).reshape(12, 12)
    model.graph.initializer[2].raw_data = bias.tobytes()
    with pytest.raises(CompileError):
        simplified(model)


def test_a_row_of_which_infinity_leaves_nothing_is_no_number() -> None:
    kept = causal(12)
    kept[0] = False
    with pytest.raises(CompileError):
        simplified(masked_model((1, 12, 12), kept, least=-np.inf))


@pytest.mark.parametrize(
    ("shape", "mask", "stored"),
    [
        ((1, 3, 8, 5), (1, 1, 1, 5), (1, 5, 1, 1)),
        ((1, 3, 8, 5), (1, 1, 8, 5), (1, 5, 1, 8)),
        ((1, 3, 8, 5), (1, 3, 1, 5), (3, 5, 1, 1)),
        ((4, 1, 20), (1, 1, 20), (1, 20, 1, 1)),
        ((1, 3, 8, 5), (8, 5), (1, 5, 1, 8)),
    ],
)
def test_a_mask_may_be_computed(shape: Sequence[int], mask: Sequence[int], stored: Sequence[int]) -> None:
    model = model_with_mask_input(shape, mask)
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    assert graph.tensors[softmax.inputs[1]].shape == stored
    rng = np.random.default_rng(3)
    kept = rng.random(mask) < 0.6
    kept[..., 0] = True
    inputs = {"x": rng.normal(0, 4, shape).astype(np.float32), "mask": mask_of(kept)}
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])


@pytest.mark.parametrize(("scale", "zero"), [(30.0, 127), (1e36, 126)])
def test_a_tensor_that_may_be_something_else_is_no_mask(scale: float, zero: int) -> None:
    with pytest.raises(CompileError):
        simplified(model_with_mask_input((1, 3, 8, 5), (1, 1, 1, 5), scale, zero))


def kept_rows(mask: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    kept = rng.random(mask) < 0.6
    kept[..., 0] = True
    return kept


@pytest.mark.parametrize(
    ("shape", "constant", "masks"),
    [
        ((1, 3, 8, 8), (8, 8), [(1, 1, 1, 8)]),
        ((1, 3, 8, 8), (1, 1, 8, 8), [(1, 1, 8, 8)]),
        ((2, 3, 8, 8), (8, 8), [(2, 3, 1, 8)]),
        ((4, 8, 20), (1, 1, 20), [(1, 8, 20)]),
        ((1, 3, 8, 8), (8, 8), [(1, 1, 1, 8), (1, 1, 8, 8)]),
    ],
    ids=["padding", "of each row", "of each image", "constant padding", "two that are computed"],
)
@pytest.mark.parametrize("place", PLACES)
def test_several_masks_are_one(
    place: str, shape: Sequence[int], constant: Sequence[int], masks: Sequence[Sequence[int]]
) -> None:
    """What any of them leaves out counts for nothing; scores stay in their own steps."""
    known = causal(8) if constant[-2:] == (8, 8) else kept_rows(constant, np.random.default_rng(1))
    first, *more = masks
    model = model_with_two_masks(shape, known.reshape(constant), first, place, *more)
    (softmax,) = (operator for operator in simplified(model).operators if operator.kind == "softmax")
    assert len(softmax.inputs) == 2
    program, rng = compile_model(model, load_machine("sequence16"), Options(effort=0)), np.random.default_rng(3)
    inputs = {"x": rng.normal(0, 4, shape).astype(np.float32)}
    for name, each in zip(("mask", "mask2"), masks, strict=False):
        inputs[name] = mask_of(kept_rows(each, rng))
    with np.errstate(over="ignore"):
        expected = run_onnx(model, inputs)["result"]
    assert steps_apart(simulated(program, inputs)["result"], expected, program.outputs[0]).max() <= 1


def test_constant_masks_become_one_constant() -> None:
    """A causal one that is added and one of padding that is chosen."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (1, 2, 6, 6)), 0.1, 3, name="x.q")
    padding = np.array([True, True, False, True, True, False])
    later = builder.constant("later", np.where(causal(6), 0, -1e9).astype(np.float32))
    chosen = [builder.constant("there", padding), x, builder.constant("least", np.float32(-1e9))]
    scores = builder.node("Add", [builder.node("Where", chosen), later])
    builder.output(builder.quantize(builder.node("Softmax", [scores], axis=-1), 1 / 256, -128, name="y.q"))
    model = builder.build("masked")
    graph = simplified(model)
    (softmax,) = (operator for operator in graph.operators if operator.kind == "softmax")
    np.testing.assert_array_equal(softmax.attributes["mask"][0, :, 0].T, causal(6) & padding)
    inputs = random_inputs(model, np.random.default_rng(1))
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])
