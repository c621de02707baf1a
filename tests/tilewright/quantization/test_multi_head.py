"""MultiHeadAttention of ONNX Runtime is written out as products, and runs on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.models import run_onnx
from tilewright.quantization.float_model import read_float_model

TOKENS, FEATURES, HEADS = 16, 32, 2
RNG = np.random.default_rng(2)
BIAS = RNG.normal(0, 0.3, 3 * FEATURES).astype(np.float32)
BETWEEN = RNG.normal(0, 1, (1, HEADS, TOKENS, TOKENS)).astype(np.float32)
LENGTHS = np.array([TOKENS - 3], np.int32)
PADDING = (np.arange(TOKENS) % 5 > 0).astype(np.int32)[None]

CASES: dict[str, tuple[Sequence[NDArray[Any] | None], dict[str, Any]]] = {
    "plain": ((), {}),
    "with a bias": ((BIAS,), {}),
    "with a scale": ((), {"scale": 0.1}),
    "causal": ((BIAS,), {"unidirectional": 1}),
    "with lengths": ((None, LENGTHS), {}),
    "with padding": ((BIAS, PADDING), {}),
    "with padding, causal": ((None, PADDING), {"unidirectional": 1, "mask_filter_value": -20000.0}),
    "with a bias of the scores": ((None, None, BETWEEN), {"mask_filter_value": -50.0}),
}


def model(more: Sequence[NDArray[Any] | None], attributes: Mapping[str, Any], layers: int = 1) -> onnx.ModelProto:
    """Layers of linear layers of q, k and v, the attention of them, and their sum with what they read."""
    nodes, constants, x = [], {}, "x"
    for layer in range(layers):
        for part in "qkv":
            weights = RNG.normal(0, 1 / np.sqrt(FEATURES), (FEATURES, FEATURES))
            constants[f"{part}{layer}.weight"] = weights.astype(np.float32)
            nodes.append(helper.make_node("MatMul", [x, f"{part}{layer}.weight"], [f"{part}{layer}"], f"{part}{layer}"))
        given = {f"more{layer}.{at}": each for at, each in enumerate(more)}
        constants |= {name: each for name, each in given.items() if each is not None}
        operands = [f"{part}{layer}" for part in "qkv"]
        operands += [name if each is not None else "" for name, each in given.items()]
        mixed, made = f"mixed{layer}", "y" if layer + 1 == layers else f"x{layer}"
        given_too = {"domain": "com.microsoft", "num_heads": HEADS, **attributes}
        attention = helper.make_node("MultiHeadAttention", operands, [mixed], f"attention{layer}", **given_too)
        nodes += [attention, helper.make_node("Add", [x, mixed], [made], f"sum{layer}")]
        x = made
    shape = (1, TOKENS, FEATURES)
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def samples(count: int = 4) -> NDArray[np.float32]:
    return RNG.standard_normal((count, 1, TOKENS, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("name", CASES)
def test_means_what_onnx_runtime_computes(name: str) -> None:
    given = model(*CASES[name], layers=2)
    written = read_float_model(given).prepared
    assert not any(node.domain for node in written.graph.node)
    x = {"x": samples()[0]}
    np.testing.assert_allclose(run_onnx(written, x)["y"], run_onnx(given, x)["y"], atol=1e-5)


@pytest.mark.parametrize("name", ["with a bias", "with padding", pytest.param("causal", marks=pytest.mark.slow)])
def test_runs_wholly_on_the_machine(name: str) -> None:
    given, data = model(*CASES[name]), samples()
    program = tilewright.compile(tilewright.quantize(given, {"x": data}).content, "sequence16", effort=0)
    assert program.host_nodes == ()
    exact, found = run_onnx(given, {"x": data[0]})["y"], program.run({"x": data[0]}).outputs["y"]
    assert 10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum()) > 30


@pytest.mark.parametrize("unidirectional", [0, 1], ids=["", "causal"])
def test_a_mask_that_is_an_input_is_read_beside_the_scores(unidirectional: int) -> None:
    """The host computes what is added from the input; all the rest is the machine's."""
    given = model((None, LENGTHS), {"unidirectional": unidirectional})
    (lengths,) = (tensor for tensor in given.graph.initializer if tensor.name == "more0.1")
    given.graph.initializer.remove(lengths)
    given.graph.input.append(helper.make_tensor_value_info("more0.1", TensorProto.INT32, [1]))
    data = {"x": samples(), "more0.1": np.array([[TOKENS], [3], [9], [1]], np.int32)}
    program = tilewright.compile(tilewright.quantize(given, data).content, "sequence16", effort=0)
    assert {node.op_type for node in program.host_nodes} <= {"Less", "Where", "Reshape"}
    one = {name: array[1] for name, array in data.items()}
    exact, found = run_onnx(given, one)["y"], program.run(one).outputs["y"]
    assert 10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum()) > 30


def test_the_host_runs_others_and_the_reason_says_why() -> None:
    sums = np.array([TOKENS, 0, TOKENS, 0, TOKENS], np.int32)
    quantized = tilewright.quantize(model((None, sums), {}), {"x": samples()})
    (node,) = (node for node in tilewright.compile(quantized.content, "sequence16", effort=0).host_nodes
               if node.op_type == "MultiHeadAttention")  # fmt: skip
    assert node.reason == (
        "operator MultiHeadAttention of the domain 'com.microsoft' is not of the form that quantize writes out; "
        "expected query, key and value as [batch, tokens, features], of known sizes; a padding mask as [batch] or "
        "[batch, keys]; no cache; and a float network"
    )


def test_other_masks_stay_the_hosts() -> None:
    """And so does a node that is to be kept."""
    sums = np.array([TOKENS, 0, TOKENS, 0, TOKENS], np.int32)
    for given, keep in ((model((None, sums), {}), ()), (model((), {}), ("attention0",))):
        operators = [node.op_type for node in read_float_model(given, keep=keep).prepared.graph.node]
        assert "MultiHeadAttention" in operators
