"""Each operator of `com.microsoft` as ONNX's own: what its nodes compute is what ONNX Runtime's kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.compiler.models import run_onnx
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.microsoft_bodies import BODIES, body_of
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.shapes import infer_shapes

Array = NDArray[Any]

WITHOUT_KERNEL = {"QLinearReduceMean", "TransposeMatMul"}
"""Operators of which ONNX Runtime has a schema, but no kernel for CPUs."""


@dataclass(frozen=True)
class Case:
    """A node by its operands (None for one that is left out) and attributes."""

    operator: str
    operands: Callable[[np.random.Generator], list[Array | None]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    results: int = 1

    def arrays(self) -> list[Array | None]:
        return self.operands(np.random.default_rng(3))

    def node(self) -> onnx.NodeProto:
        names = ["" if value is None else f"a{position}" for position, value in enumerate(self.arrays())]
        outputs = ["y"] if self.results == 1 else ["y", "", "", "z"]
        return helper.make_node(self.operator, names, outputs, "node", domain=DOMAIN, **self.attributes)

    def inputs(self) -> dict[str, Array]:
        return {f"a{position}": np.asarray(value) for position, value in enumerate(self.arrays()) if value is not None}

    def model(self, nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in self.inputs().items()
        ]
        element = TensorProto.FLOAT
        if self.operator.startswith("QLinear"):
            element = helper.np_dtype_to_tensor_dtype(next(iter(self.inputs().values())).dtype)
        if self.operator == "QLinearWhere":
            element = TensorProto.INT8
        names = [name for name in self.node().output if name]
        results = [helper.make_tensor_value_info(name, element, None) for name in names]
        graph = helper.make_graph(nodes, "model", given, results)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def reals(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array | None]]:
    return lambda rng: [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def quantised(
    *shapes: tuple[int, ...], dtype: type = np.int8, step: float = 0.0371
) -> Callable[[np.random.Generator], list[Array | None]]:
    """Integers with scale and zero point for each shape, and scale and zero point of the result."""

    def made(rng: np.random.Generator) -> list[Array | None]:
        limits = np.iinfo(dtype)
        zero = (limits.min + limits.max) // 2
        found: list[Array | None] = []
        for position, shape in enumerate(shapes):
            values = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
            found += [values, np.float32(0.0437 + position / 100), np.array(zero + 3, dtype)]
        return [*found, np.float32(step), np.array(zero - 4, dtype)]

    return made


def without_zero(*left_out: int) -> Callable[[np.random.Generator], list[Array | None]]:
    """One tensor, and without some of the zero points."""
    return lambda rng: [None if at in left_out else value for at, value in enumerate(quantised((2, 300))(rng))]


def with_condition(rng: np.random.Generator) -> list[Array | None]:
    return [rng.integers(0, 2, (3, 8)).astype(bool), *quantised((3, 8), (1, 8))(rng)]


def left_out(rng: np.random.Generator) -> list[Array | None]:
    return [*(rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 8), (2, 3, 8), (8,))), None, ones(rng)]


def ones(rng: np.random.Generator) -> Array:
    return np.ones(8, np.float32)


CASES = [
    *(Case("QLinearSigmoid", quantised((2, 300), dtype=dtype, step=1 / 255)) for dtype in (np.int8, np.uint8)),
    Case("QLinearLeakyRelu", quantised((2, 300))),
    *(Case("QLinearLeakyRelu", without_zero(at)) for at in (2, 4)),
    Case("QLinearLeakyRelu", quantised((2, 300), dtype=np.uint8), {"alpha": 0.2}),
    Case("QLinearMul", quantised((2, 5, 4), (2, 5, 4), step=0.0821)),
    Case("QLinearMul", quantised((2, 5, 4), (5, 1), dtype=np.uint8, step=0.0821)),
    Case("QLinearSoftmax", quantised((3, 4, 5), dtype=np.uint8, step=1 / 256), {"axis": -1, "opset": 13}),
    Case("QLinearSoftmax", quantised((3, 4, 5), dtype=np.uint8, step=1 / 256), {"axis": 1, "opset": 13}),
    Case("QLinearSoftmax", quantised((3, 4, 5), dtype=np.uint8, step=1 / 256), {"axis": 1, "opset": 11}),
    Case("QLinearWhere", with_condition),
    Case("Gelu", reals((2, 3, 8))),
    Case("Gelu", reals((2, 3, 8)), opset=21),
    Case("BiasGelu", reals((2, 3, 8), (8,))),
    Case("FastGelu", reals((2, 3, 8))),
    Case("FastGelu", reals((2, 3, 8), (8,)), opset=21),
    Case("QuickGelu", reals((2, 3, 8)), {"alpha": 1.5}),
    Case("QuickGelu", reals((2, 3, 8))),
    Case("SkipLayerNormalization", reals((2, 3, 8), (2, 3, 8), (8,), (8,), (8,)), {"epsilon": 1e-5}),
    Case("SkipLayerNormalization", reals((2, 3, 8), (2, 3, 8), (8,)), results=4),
    Case("SkipLayerNormalization", left_out, results=4),
    Case("SkipSimplifiedLayerNormalization", reals((2, 3, 8), (2, 3, 8), (8,)), {"epsilon": 1e-5}),
    Case("SkipSimplifiedLayerNormalization", reals((2, 3, 8), (2, 3, 8), (8,), (8,)), opset=18, results=4),
    Case("FusedMatMul", reals((2, 3, 4), (2, 4, 5))),
    Case("FusedMatMul", reals((2, 3, 4), (2, 5, 4)), {"transB": 1, "alpha": 0.125}),
    Case("FusedMatMul", reals((2, 4, 3), (4, 5)), {"transA": 1, "alpha": 2.0}),
    Case("FusedConv", reals((1, 2, 5, 5), (3, 2, 3, 3), (3,)), {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    Case("FusedConv", reals((1, 2, 5, 5), (3, 2, 3, 3)), {"activation": "LeakyRelu", "activation_params": [0.1]}),
    Case(
        "FusedConv",
        reals((1, 2, 5, 5), (3, 2, 3, 3), (3,), (1, 3, 3, 3)),
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
    Case(
        "FusedConv", reals((1, 2, 5, 5), (3, 2, 3, 3)), {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}
    ),
    Case("FusedGemm", reals((3, 4), (5, 4), (5,)), {"activation": "Relu", "transB": 1, "alpha": 0.5}),
    Case("FusedGemm", reals((3, 4), (4, 5)), {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    *(
        Case("MatMulIntegerToFloat", lambda rng, bias=bias: integer_operands(rng)[: 6 + bias])  # type: ignore[misc]
        for bias in (0, 1)
    ),
    Case("DynamicQuantizeMatMul", lambda rng: dynamic_operands(rng)),
]


def integer_operands(rng: np.random.Generator) -> list[Array | None]:
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(-64, 64, (8, 4)).astype(np.int8)
    scales = rng.uniform(0.01, 0.02, 4).astype(np.float32)
    return [a, b, np.float32(0.02), scales, np.uint8(120), np.zeros(4, np.int8), rng.normal(size=4).astype(np.float32)]


def dynamic_operands(rng: np.random.Generator) -> list[Array | None]:
    """Values that are quantised exactly: multiples of the step that 255 steps between the least and the most give."""
    a = np.concatenate([[0, 255], rng.integers(0, 256, 22)]).reshape(3, 8).astype(np.float32) / 64
    b = rng.integers(-64, 64, (8, 4)).astype(np.int8)
    return [a, b, np.float32(0.02), np.int8(3), rng.normal(size=4).astype(np.float32)]


def test_every_operator_has_a_case() -> None:
    assert {case.operator for case in CASES} == BODIES.keys() - WITHOUT_KERNEL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operator)
def test_computes_what_onnx_runtime_computes(case: Case) -> None:
    node, inputs = case.node(), case.inputs()
    body = body_of(node, case.opset, lambda name: inputs[name].ndim)
    expected, computed = run_onnx(case.model([node]), inputs), run_onnx(case.model(body), inputs)
    for name, values in expected.items():
        if values.dtype == np.float32:
            assert np.allclose(computed[name], values, rtol=1e-4, atol=1e-5)
        else:
            apart = np.abs(computed[name].astype(int) - values.astype(int))
            assert apart.max() <= 1 and (apart == 0).mean() >= 0.99
            assert np.ptp(values.astype(int)) > 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operator)
def test_its_shape_is_inferred(case: Case) -> None:
    model = case.model([case.node()])
    expected = run_onnx(model, case.inputs())
    inferred = infer_shapes(model)
    found = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in inferred.graph.output
    }
    assert found == {name: value.shape for name, value in expected.items()}
    assert not any(node.overload for node in inferred.graph.node)


@pytest.mark.parametrize(
    "operator, attributes, fact",
    [
        ("FusedMatMul", {"transBatchA": 1}, "transBatchA or transBatchB is 1"),
        ("FusedConv", {"activation": "Cube"}, "its activation is Cube"),
        ("Gelu", {"exact": 1}, "attribute 'exact' has no lowering"),
    ],
)
def test_refuses_another_form(operator: str, attributes: dict[str, Any], fact: str) -> None:
    node = helper.make_node(operator, ["a", "b"], ["y"], "node", domain=DOMAIN, **attributes)
    with pytest.raises(CompileError) as caught:
        body_of(node, 17, lambda name: 3)
    assert caught.value.fact == fact and caught.value.node == "node"
