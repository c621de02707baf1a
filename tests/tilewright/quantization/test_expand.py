"""Operators of new opsets are written out as the nodes that ONNX defines them by, and then quantised like those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.compiler.models import run_onnx
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.quantization.float_model import read_float_model
from tilewright.quantization.quantize import quantize

FEATURES, TOKENS, HEADS = 32, 16, 2
IN_HEADS = (1, 4, 8, 16)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    result: Sequence[int],
    constants: Mapping[str, NDArray[Any]],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "newer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def attention(*inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Attention", inputs, ["y"], "attention", **attributes)


def in_heads(*heads: int) -> dict[str, tuple[int, ...]]:
    return {name: (1, count, *IN_HEADS[2:]) for name, count in zip("qkv", heads, strict=True)}


RNG = np.random.default_rng(3)
MASK = np.where(np.tri(8) > 0, 0, -np.inf).astype(np.float32)
TURNS = {name: RNG.normal(0, 1, (32, 4)).astype(np.float32) for name in ("cos", "sin")}
PLACES = {"places": np.arange(8)[None]}
TURNED = ("x", "cos", "sin", "places")

CASES = {
    "swish": ([helper.make_node("Swish", ["x"], ["y"])], {"x": IN_HEADS}, {}, 24),
    "swish, steeper": ([helper.make_node("Swish", ["x"], ["y"], alpha=1.5)], {"x": IN_HEADS}, {}, 24),
    "attention": ([attention("q", "k", "v")], in_heads(4, 4, 4), {}, 23),
    "causal": ([attention("q", "k", "v", is_causal=1, scale=0.3)], in_heads(4, 4, 4), {}, 23),
    "shared heads": ([attention("q", "k", "v", softcap=2.0)], in_heads(4, 2, 2), {}, 23),
    "masked": ([attention("q", "k", "v", "mask")], in_heads(4, 4, 4), {"mask": MASK}, 24),
    "turned": (
        [helper.make_node("RotaryEmbedding", TURNED, ["y"], interleaved=1, rotary_embedding_dim=8)],
        {"x": IN_HEADS},
        {**TURNS, **PLACES},
        23,
    ),
    "normalised": (
        [helper.make_node("RMSNormalization", ["x", "scale"], ["y"], axis=-1, epsilon=1e-3)],
        {"x": IN_HEADS},
        {"scale": np.linspace(0.5, 2, 16).astype(np.float32)},
        23,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_means_the_same_in_an_older_opset(name: str) -> None:
    nodes, inputs, constants, opset = CASES[name]
    newer = model(nodes, inputs, IN_HEADS, constants, opset)
    feed = {name: RNG.normal(0, 1, shape).astype(np.float32) for name, shape in inputs.items()}
    prepared = read_float_model(newer).prepared
    kinds = {node.op_type for node in prepared.graph.node}
    assert prepared.opset_import[0].version == 21 and len(prepared.opset_import) == 1
    assert kinds.isdisjoint(("Where", "ConstantOfShape", *(node.op_type for node in nodes)))
    found = run_onnx(prepared, feed)["y"]
    np.testing.assert_allclose(found, ReferenceEvaluator(newer).run(None, feed)[0], rtol=1e-4, atol=1e-5)


def test_a_layer_of_new_operators_is_wholly_on_the_machine() -> None:
    shape = (1, TOKENS, FEATURES)
    angles = np.arange(TOKENS)[:, None] / 100 ** (np.arange(FEATURES // HEADS // 2) / 8)
    constants = {name: RNG.normal(0, 0.2, (FEATURES, FEATURES)).astype(np.float32) for name in ("wq", "wk", "wv", "wo")}
    constants |= {name: of(angles)[None].astype(np.float32) for name, of in (("cos", np.cos), ("sin", np.sin))}
    constants["scale"] = np.ones(FEATURES, np.float32)
    turned = {"num_heads": HEADS}
    nodes = [
        helper.make_node("RMSNormalization", ["x", "scale"], ["even"], "norm"),
        *(helper.make_node("MatMul", ["even", f"w{letter}"], [letter], letter) for letter in "qkv"),
        helper.make_node("RotaryEmbedding", ["q", "cos", "sin"], ["tq"], "turn_q", **turned),
        helper.make_node("RotaryEmbedding", ["k", "cos", "sin"], ["tk"], "turn_k", **turned),
        helper.make_node(
            "Attention", ["tq", "tk", "v"], ["a"], "attention", q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1
        ),
        helper.make_node("MatMul", ["a", "wo"], ["o"], "out"),
        helper.make_node("Add", ["x", "o"], ["y"], "sum"),
    ]
    layer = model(nodes, {"x": shape}, shape, constants, 23)
    result = quantize(layer, {"x": RNG.normal(0, 1, (8, *shape)).astype(np.float32)})
    assert min(of.snr_db for of in result.layers if of.snr_db is not None) > 25
    assert compile_model(result.content, load_machine("sequence16"), Options())


def test_attention_reads_a_mask_that_is_an_input() -> None:
    """Its care for rows that are all masked goes: quantised values are never -∞."""
    inputs = {**in_heads(2, 2, 2), "mask": (8, 8)}
    layer = model([attention(*inputs)], inputs, (1, 2, *IN_HEADS[2:]), {}, 23)
    data = {name: RNG.normal(0, 1, (4, *shape)).astype(np.float32) for name, shape in inputs.items()}
    data["mask"] = np.where(RNG.random((4, 8, 8)) < 0.5, 0, -1e9).astype(np.float32)
    result = quantize(layer, data)
    assert compile_model(result.content, load_machine("sequence16"), Options())
    assert min(of.snr_db for of in result.layers if of.snr_db is not None) > 25
