"""QONNX's operators: the meaning that its documentation gives them, on the machine where integers do; and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import tilewright
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.qonnx import with_plain_quantizers

DOMAIN = "qonnx.custom_op.general"


class Quant(OpRun):  # type: ignore[misc]
    op_domain = DOMAIN

    def _run(self, x: Any, scale: Any, zero: Any, bits: Any, signed: int = 1, narrow: int = 0, **_: Any) -> Any:
        low = -(2 ** (bits - 1)) + narrow if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        return (((np.rint(np.clip(x / scale + zero, low, high)) - zero) * scale).astype(np.float32),)


class BipolarQuant(OpRun):  # type: ignore[misc]
    op_domain = DOMAIN

    def _run(self, x: Any, scale: Any, **_: Any) -> Any:
        return (np.where(x >= 0, scale, -scale).astype(np.float32),)


class Trunc(OpRun):  # type: ignore[misc]
    op_domain = DOMAIN

    def _run(self, x: Any, scale: Any, zero: Any, bits: Any, fewer: Any, **_: Any) -> Any:
        return (((np.floor(np.rint(x / scale + zero) / 2 ** (bits - fewer)) - zero) * scale).astype(np.float32),)


def meant(model: onnx.ModelProto, x: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32]
    (found,) = ReferenceEvaluator(model, new_ops=[Quant, BipolarQuant, Trunc]).run(None, {"x": x})
    return found


class Builder:
    """Nodes of both domains, each with a result called like it."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []

    def hold(self, value: Any) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, kind: str, name: str, *inputs: Any, domain: str = "", **said: Any) -> str:
        read = [each if isinstance(each, str) else self.hold(each) for each in inputs]
        self.nodes.append(helper.make_node(kind, read, [name], name, domain=domain, **said))
        return name

    def quant(self, name: str, x: Any, scale: Any, bits: float, zero: float = 0, **said: Any) -> str:
        return self.node("Quant", name, x, scale, zero, bits, domain=DOMAIN, **said)

    def build(self, result: str, shape: tuple[int, ...] = (1, 8, 6, 6), opset: int = 11) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [x], [y], self.held)
        domains = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=7)


def network(bits: int = 4, zero: float = 0, opset: int = 11) -> onnx.ModelProto:
    """A convolution with weights of so many bits, Relu, activations of four bits, and a product with weights of one."""
    b = Builder()
    x = b.quant("in", "x", 0.0513, 8, zero)
    weights = b.quant("w", b.rng.normal(size=(20, 8, 3, 3)), b.rng.uniform(0.1, 0.3, (20, 1, 1, 1)), bits, narrow=1)
    y = b.node("Relu", "relu", b.node("Conv", "conv", x, weights))
    y = b.quant("few", y, 0.4873, 4, signed=0)
    rows = b.node("Flatten", "flat", y)
    signs = b.node("BipolarQuant", "signs", b.rng.normal(size=(320, 10)), 0.3107, domain=DOMAIN)
    return b.build(b.quant("out", b.node("MatMul", "product", rows, signs), 1.0, 8), opset=opset)


@pytest.mark.parametrize(("bits", "zero", "opset"), [(4, 0, 11), (8, 6, 13), (2, -4, 17)])
def test_integers_run_on_the_machine_as_they_are_meant(bits: int, zero: float, opset: int) -> None:
    model = network(bits, zero, opset)
    program = tilewright.compile(model, "base16")
    assert program.host_nodes == ()
    apart = []  # in steps of the result, which are 1; one rounding of the first layer reaches the last
    for seed in range(10):
        x = np.random.default_rng(seed).normal(0, 2, (1, 8, 6, 6)).astype(np.float32)
        (found,) = program.run({"x": x}).outputs.values()
        apart.append(np.abs(np.rint(found - meant(model, x))))
    assert np.max(apart) <= 1 and np.mean(np.array(apart) == 0) >= 0.97
    assert np.ptp(found) > 10


def test_weights_of_four_bits_take_the_instruction_for_them() -> None:
    program = tilewright.compile(network(4), "base16-w4")
    assert "mma_w4" in {each.mnemonic for each in program.binary.instructions}


def each_value() -> NDArray[np.float32]:
    return np.linspace(-3, 3, 97, dtype=np.float32)[None]


@pytest.mark.parametrize(
    "add",
    [
        lambda b: b.quant("y", "x", 0.1, 3),
        lambda b: b.quant("y", "x", 0.1, 5, narrow=1),
        lambda b: b.quant("y", "x", 0.1, 5, 6, signed=0, narrow=1),
        lambda b: b.quant("y", "x", 1e-3, 12, 40),
        lambda b: b.node("BipolarQuant", "y", "x", 0.7, domain=DOMAIN),
        lambda b: b.node("Trunc", "y", "x", 0.1, 0, 8, 6, domain=DOMAIN, rounding_mode="FLOOR"),
    ],
    ids=["3 bits", "narrow", "unsigned", "12 bits", "bipolar", "trunc"],
)
def test_nodes_mean_what_they_did(add: Callable[[Builder], str]) -> None:
    b = Builder()
    model = b.build(add(b), (1, 97))
    plain = with_plain_quantizers(model, "net")
    assert {node.domain for node in plain.graph.node} == {""}
    (found,) = ReferenceEvaluator(plain).run(None, {"x": each_value()})
    np.testing.assert_allclose(found, meant(model, each_value()), atol=1e-6)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda b: b.quant("y", "x", 0.1, 8, rounding_mode="FLOOR"),
            "node 'y' (Quant): rounding_mode = 'FLOOR' has no lowering; expected 'ROUND' or 'HALF_EVEN'",
        ),
        (lambda b: b.quant("y", "x", 0.0, 8), "node 'y' (Quant): its scale is 0.0; expected positive numbers"),
        (lambda b: b.quant("y", "x", np.nan, 8), "node 'y' (Quant): its scale is nan; expected positive numbers"),
        (lambda b: b.quant("y", "x", "x", 8), "node 'y' (Quant): its scale is computed; expected a constant"),
        (
            lambda b: b.quant("y", "x", 0.1, 2.5),
            "node 'y' (Quant): its number of bits is 2.5; expected one whole number",
        ),
        (lambda b: b.quant("y", "x", 0.1, 0), "node 'y' (Quant): it has 0 bits; expected 1 to 32"),
        (lambda b: b.quant("y", "x", 0.1, 20), "node 'y' (Quant): it has 20 bits with a sign; expected at most 16"),
        (lambda b: b.quant("y", "x", 0.1, 4, 9), "node 'y' (Quant): its zero point is 9; expected -8 to 7"),
        (
            lambda b: b.quant("y", "x", 0.1, 4, other=1),
            "node 'y' (Quant): attribute 'other' has no lowering; remove it",
        ),
        (
            lambda b: b.quant("y", "x", np.ones((2, 3)), 4),
            "node 'y' (Quant): its scales are [2, 3]; expected one, or one for each index of a dimension",
        ),
        (
            lambda b: b.node("FloatQuant", "y", "x", domain=DOMAIN),
            "node 'y' (FloatQuant): is of the domain 'qonnx.custom_op.general'; "
            "expected one of its Quant, BipolarQuant, Trunc",
        ),
        (
            lambda b: b.node("Trunc", "y", "x", 0.1, 0, 4, 6, domain=DOMAIN),
            "node 'y' (Trunc): 2 bits more come out than go in; expected fewer, or as many",
        ),
    ],
)
def test_what_is_not_done_is_refused(add: Callable[[Builder], str], message: str) -> None:
    b = Builder()
    with pytest.raises(CompileError) as refused:
        with_plain_quantizers(b.build(add(b), (1, 97)), "net")
    assert str(refused.value) == message
