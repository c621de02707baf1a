"""Masks that a Where chooses by a computed condition: the host gives the mask, and the machine has the scores."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

import tilewright
from tests.compiler.models import run_onnx
from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.compiler.errors import CompileError

ROWS, KEYS = 8, 32


def attention(least: float = -np.inf, is_kept: bool = True, is_read_twice: bool = False) -> onnx.ModelProto:
    """A product, a softmax that leaves out the keys that an input of truth values names, a product."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input("x", (1, ROWS, KEYS)), b.normal("a", KEYS, KEYS, scale=0.3))
    there = b.input("there", (1, 1, KEYS), TensorProto.BOOL)
    constant = b.constant("least", np.float32(least))
    choice = (there, x, constant) if is_kept else (b.node("Not", "gone", there), constant, x)
    scores = b.node("Where", "chosen", *choice)
    y = b.node("MatMul", "last", b.node("Softmax", "softmax", scores, axis=-1), b.normal("b", KEYS, KEYS, scale=0.3))
    return b.build(y, b.node("Exp", "more", scores)) if is_read_twice else b.build(y)


def samples(least: int = 5) -> dict[str, NDArray[np.generic]]:
    """Of rows in which at least so many keys are there."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(least, KEYS + 1, 8)
    return {
        "x": rng.normal(size=(8, ROWS, KEYS)).astype(np.float32),
        "there": np.arange(KEYS)[None, None] < lengths[:, None, None],
    }


def decibel(exact: NDArray[np.generic], found: NDArray[np.generic]) -> float:
    return float(10 * np.log10((exact.astype(float) ** 2).sum() / ((exact - found).astype(float) ** 2).sum()))


@pytest.mark.parametrize("is_kept", [True, False], ids=["scores first", "scores second"])
@pytest.mark.parametrize("least", [-10000.0, float(np.finfo(np.float32).min), -np.inf])
def test_only_the_mask_comes_from_the_host(least: float, is_kept: bool) -> None:
    model, data = attention(least, is_kept), samples()
    program = tilewright.compile(tilewright.quantize(model, data).content, "sequence16", effort=0)
    assert {node.op_type for node in program.host_nodes} <= {"Where", "Not"}
    assert all(node.name != "chosen" for node in program.host_nodes)
    one = {name: array[:1] for name, array in data.items()}
    assert decibel(run_onnx(model, one)["last.out"], program.run(one).outputs["last.out"]) > 30


def test_a_mask_counts_though_no_sample_has_one() -> None:
    """Samples without padding say nothing of what padding is worth."""
    model = attention()
    program = tilewright.compile(tilewright.quantize(model, samples(least=KEYS)).content, "sequence16", effort=0)
    one = {name: array[:1] for name, array in samples().items()}
    assert not one["there"].all()
    assert decibel(run_onnx(model, one)["last.out"], program.run(one).outputs["last.out"]) > 30


def node_types(model: onnx.ModelProto, **options: object) -> dict[str, str]:
    result = tilewright.quantize(model, samples(), **options)  # type: ignore[arg-type]
    return {node.name: node.op_type for node in result.model.graph.node}


def test_what_is_no_mask_or_is_kept_stays() -> None:
    assert node_types(attention())["chosen"] == "Add"
    assert node_types(attention(-3.0))["chosen"] == "Where"
    assert node_types(attention(-1e4, is_read_twice=True))["chosen"] == "Where"
    assert node_types(attention(-1e4), keep=["chosen"])["chosen"] == "Where"


def test_a_row_of_which_nothing_is_left_is_refused_and_can_be_kept() -> None:
    data = samples()
    data["there"][0] = False
    with pytest.raises(CompileError) as error:
        tilewright.quantize(attention(-1e4), data)
    assert str(error.value) == (
        "the ONNX model: preparing it for quantising changes its output 'last.out'; expected the same results. "
        "Keep masks as they are, since one leaves nothing of a row: --keep Where"
    )
    kept = tilewright.quantize(attention(-1e4), data, keep=["Where"]).model
    assert "Where" in {node.op_type for node in kept.graph.node}
