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
from tilewright.compiler.errors import CompileError
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
        "expected operands of known sizes; a padding mask as [batch], [batch, keys] or [batch, tokens, keys]; no cache "
        "that is filled in place; and a float network"
    )


def test_other_masks_stay_the_hosts() -> None:
    """And so does a node that is to be kept."""
    sums = np.array([TOKENS, 0, TOKENS, 0, TOKENS], np.int32)
    for given, keep in ((model((None, sums), {}), ()), (model((), {}), ("attention0",))):
        operators = [node.op_type for node in read_float_model(given, keep=keep).prepared.graph.node]
        assert "MultiHeadAttention" in operators


BATCH, OWN, PAST, WIDTH = 2, 5, 7, 16
"""Of single nodes: OWN tokens, and as many places of a cache before them."""

Operands = dict[str, NDArray[Any]]
ORDER = ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value")


def single(operands: Operands, outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """One node, all operands of which are inputs."""
    names = [name if name in operands else "" for name in ORDER]
    given = {"domain": "com.microsoft", "num_heads": HEADS, **attributes}
    results = ["y", "present_key", "present_value"][:outputs]
    node = helper.make_node("MultiHeadAttention", names, results, "attention", **given)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in operands.items()
    ]
    sizes = [[f"{name}.{axis}" for axis in range(3 if name == "y" else 4)] for name in results]
    made = [helper.make_tensor_value_info(*each) for each in zip(results, [TensorProto.FLOAT] * 3, sizes, strict=False)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "single", inputs, made)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def normal(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def apart() -> Operands:
    return {name: normal(BATCH, OWN, FEATURES) for name in ORDER[:3]}


def cache() -> Operands:
    return {name: normal(BATCH, HEADS, PAST, WIDTH) for name in ("past_key", "past_value")}


def at_least_one(*shape: int) -> NDArray[np.int32]:
    mask = RNG.integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    return mask


SINGLE: dict[str, tuple[Operands, dict[str, Any]]] = {
    "cache": (apart() | cache(), {}),
    "cache, bias": (apart() | cache() | {"bias": normal(3 * FEATURES)}, {"scale": 0.3}),
    "cache, causal": (apart() | cache(), {"unidirectional": 1}),
    "cache, padding": (apart() | cache() | {"key_padding_mask": at_least_one(BATCH, PAST + OWN)}, {}),
    "cache, padding of tokens": (apart() | cache() | {"key_padding_mask": at_least_one(BATCH, OWN, PAST + OWN)}, {}),
    "cache, bias of the scores": (apart() | cache() | {"attention_bias": normal(1, HEADS, OWN, PAST + OWN)}, {}),
    "in heads": (
        {"query": normal(BATCH, OWN, FEATURES), "key": normal(BATCH, HEADS, PAST, WIDTH)}
        | {"value": normal(BATCH, HEADS, PAST, WIDTH)},
        {},
    ),
    "wide values": ({**apart(), "value": normal(BATCH, OWN, 2 * FEATURES)}, {}),
    "other keys": ({**apart(), "key": normal(BATCH, 9, FEATURES), "value": normal(BATCH, 9, FEATURES)}, {}),
}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_cache_and_other_operands_mean_what_onnx_runtime_computes(name: str, outputs: int) -> None:
    """It needs the keys and values with the cache as results: without them, its kernel leaves out the cache."""
    operands, attributes = SINGLE[name]
    expected = run_onnx(single(operands, 3, **attributes), operands)
    written = read_float_model(single(operands, outputs, **attributes)).prepared
    assert not any(node.domain for node in written.graph.node)
    for result, values in run_onnx(written, operands).items():
        np.testing.assert_allclose(expected[result], values, atol=1e-5)


def packed(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[batch, tokens, heads, parts, width]"""
    return np.stack([part.reshape(*part.shape[:2], HEADS, -1) for part in parts], axis=3)


@pytest.mark.parametrize("more", [{}, {"bias": normal(3 * FEATURES)}], ids=["", "bias"])
@pytest.mark.parametrize("count", [2, 3])
def test_packed_operands_mean_the_same_as_apart(count: int, more: Operands) -> None:
    """ONNX Runtime computes the same apart; it has no kernel of packed operands for CPUs."""
    operands = apart()
    parts = [operands[name] for name in ORDER[3 - count : 3]]
    rest = {"key": packed(parts), "query": operands["query"]} if count == 2 else {"query": packed(parts)}
    found = run_onnx(read_float_model(single(rest | more)).prepared, rest | more)["y"]
    np.testing.assert_allclose(found, run_onnx(single(operands | more), operands | more)["y"], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"past_key": (2, 2, 7, 15)}, "past_key has the shape [2, 2, 7, 15]; expected [2, 2, 7, 16]"),
        ({"past_value": (2, 2, 6, 16)}, "past_value has the shape [2, 2, 6, 16]; expected [2, 2, 7, 16]"),
        ({"past_value": None}, "past_value is missing; expected one beside past_key"),
        ({"past_key": None}, "past_key is missing; expected one beside past_value"),
        ({"query": (2, 5, 33)}, "query has the shape [2, 5, 33]; expected [batch, tokens, features of 2 heads] or five "
         "sizes, packed"),
        ({"query": (2, 5, 2, 2, 16)}, "query has the shape [2, 5, 2, 2, 16]; expected [2, 5, 2, 3, 16]"),
        ({"query": (2, 5, 2, 3, 16)}, "key is given; expected none beside operands that are packed"),
        ({"key": (2, 5, 2, 3, 16)}, "key has the shape [2, 5, 2, 3, 16]; expected [2, 5, 2, 2, 16]"),
        ({"key": (2, 5, 2, 2, 16)}, "value is given; expected none beside operands that are packed keys"),
        ({"key": (2, 2, 5, 16), "value": (2, 2, 5, 16)}, "past_key is given; expected none beside operands that are in "
         "heads"),
        ({"key": (2, 6, 32)}, "value has the shape [2, 5, 32]; expected [2, 6, 32]"),
        ({"key": None}, "key is missing; expected one beside a query of three sizes"),
        ({"bias": (95,)}, "bias has the shape [95]; expected [96]"),
        ({"attention_bias": (1, 2, 5, 5)}, "attention_bias has the shape [1, 2, 5, 5]; expected [1, 2, 5, 12]"),
    ],
)  # fmt: skip
def test_shapes_that_contradict_each_other_are_errors(change: Mapping[str, Any], message: str) -> None:
    operands = apart() | cache()
    for name, shape in change.items():
        operands.pop(name, None)
        operands |= {} if shape is None else {name: normal(*shape)}
    with pytest.raises(CompileError) as error:
        read_float_model(single(operands))
    assert str(error.value) == f"node 'attention' (MultiHeadAttention): {message}"


def test_a_node_that_is_kept_is_not_read() -> None:
    operands = apart() | {"bias": normal(95)}
    written = read_float_model(single(operands), keep=("attention",)).prepared
    assert [node.op_type for node in written.graph.node] == ["MultiHeadAttention"]


@pytest.mark.parametrize("is_packed", [False, True], ids=["cache", "packed"])
def test_a_cache_and_packed_operands_run_wholly_on_the_machine(is_packed: bool) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["made"], "first")]
    shape, names = (1, OWN, HEADS, 3, WIDTH), ["packed"]
    constants = {"w": normal(FEATURES, 3 * FEATURES) / 6, "shape": np.array(shape)}
    data = {"x": RNG.standard_normal((4, 1, OWN, FEATURES)).astype(np.float32)}
    if is_packed:
        nodes.append(helper.make_node("Reshape", ["made", "shape"], ["packed"], "pack"))
    else:
        nodes.append(helper.make_node("Split", ["made"], ["q", "k", "v"], "split", axis=2, num_outputs=3))
        names = ["q", "k", "v", "", "", "", "past_key", "past_value"]
        data |= {name: RNG.standard_normal((4, 1, HEADS, PAST, WIDTH)).astype(np.float32) for name in names[-2:]}
    nodes.append(
        helper.make_node("MultiHeadAttention", names, ["y"], "attention", domain="com.microsoft", num_heads=HEADS)
    )
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape[1:]) for name, each in data.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, OWN, FEATURES))],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    given = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    program = tilewright.compile(tilewright.quantize(given, data).content, "sequence16", effort=0)
    assert program.host_nodes == ()
    one = {name: each[0] for name, each in data.items()}
    exact = run_onnx(read_float_model(given).prepared, one)["y"]
    found = program.run(one).outputs["y"]
    assert 10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum()) > 30
