"""Integer products on the host are those of the numbers, for all types and at the ends of their ranges.

Expected values are sums of int64 in numpy. A processor with VNNI computes them even where ONNX Runtime is given what
it limits elsewhere: so the types that it is given are looked at too, and the long ring runs this file on emulated
processors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import InputError
from tilewright.host.model import HostModel
from tilewright.host.products import PRODUCTS, with_exact_products

INTEGERS = (np.uint8, np.int8)
PAIRS = list(product(INTEGERS, repeat=2))
SCALE = 5000
"""Of the outputs that are quantised again, so that most stay in their range."""

MICROSOFT = "com.microsoft"

OF_MICROSOFT = {"QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QAttention", "DynamicQuantizeLSTM"}


def extremes(of: type[Any], shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    limits = np.iinfo(of)
    return rng.choice([limits.min, limits.max], size=shape).astype(of)


def quantised(sums: NDArray[Any], zero: NDArray[Any]) -> NDArray[Any]:
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(sums / np.float32(SCALE)) + zero.astype(np.int64), limits.min, limits.max)


# -- models of one product ---------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A product, its operands by place, which of them are computed, and what comes out."""

    operator: str
    operands: dict[int, Any]
    expected: NDArray[Any]
    result: type[Any] = np.int32
    computed: tuple[int, ...] = (0,)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        return MICROSOFT if self.operator in OF_MICROSOFT else ""

    @property
    def inputs(self) -> dict[str, Any]:
        return {f"i{place}": np.asarray(self.operands[place]) for place in self.computed}

    def model(self, where: str = "") -> onnx.ModelProto:
        """`where` says what is around the product: nothing, an operator unknown to ONNX, or the body of one."""
        names = [f"i{place}" if place in self.operands else "" for place in range(max(self.operands) + 1)]
        before: list[onnx.NodeProto] = []
        if where == "unknown":
            before = [unknown(name, value.dtype) for name, value in self.inputs.items()]
            names = [f"{name}.same" if name in self.inputs else name for name in names]
        node = helper.make_node(self.operator, names, ["y"], domain=self.domain, **self.attributes)
        nodes = [*before, node]
        if where in ("If", "Loop"):
            nodes = [inside(where, nodes)]
        constants = {f"i{place}": value for place, value in self.operands.items() if place not in self.computed}
        constants |= {"true": np.array(True), "once": np.array(1, np.int64), "one": np.float32(1)}
        constants |= {"nought.int8": np.int8(0), "nought.uint8": np.uint8(0)}
        graph = helper.make_graph(
            nodes,
            self.operator,
            [typed(name, value.dtype, value.shape) for name, value in self.inputs.items()],
            [typed("y", np.dtype(self.result), None)],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        )
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def typed(name: str, of: np.dtype[Any], shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(of), shape)


def unknown(name: str, of: np.dtype[Any]) -> onnx.NodeProto:
    """A node that gives its operand as it is, and of which ONNX infers nothing."""
    if of == np.float32:
        return helper.make_node("Identity", [name], [f"{name}.same"])
    zero = f"nought.{of.name}"
    return helper.make_node(
        "QLinearLeakyRelu", [name, "one", zero, "one", zero], [f"{name}.same"], domain=MICROSOFT, alpha=1.0
    )


def inside(operator: str, nodes: list[onnx.NodeProto]) -> onnx.NodeProto:
    """An operator that runs these nodes once. The last of them makes `y`."""
    nodes[-1].output[0] = "y.inside"
    result = onnx.ValueInfoProto(name="y.inside")
    if operator == "If":
        body = helper.make_graph(nodes, "body", [], [result])
        return helper.make_node("If", ["true"], ["y"], then_branch=body, else_branch=body)
    nodes = [*nodes, helper.make_node("Identity", ["condition"], ["goes on"])]
    ends = [typed("number", np.dtype(np.int64), ()), typed("condition", np.dtype(bool), ())]
    body = helper.make_graph(nodes, "body", ends, [onnx.ValueInfoProto(name="goes on"), result])
    return helper.make_node("Loop", ["once", "true"], ["y"], body=body)


def convolved(x: NDArray[Any], weights: NDArray[Any], padding: int = 0) -> NDArray[Any]:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return np.einsum("nchwij,ocij->nohw", sliding_window_view(x, weights.shape[2:], (2, 3)), weights)


def multiplied(operator: str, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return convolved(a, b, padding=1) if "Conv" in operator else a @ b


def of_integers(operator: str, first: type[Any], second: type[Any], has_zeros: bool = True) -> Case:
    """ConvInteger or MatMulInteger, which give the sums themselves."""
    rng = np.random.default_rng(0)
    shapes = ((1, 8, 7, 7), (5, 8, 3, 3)) if operator == "ConvInteger" else ((9, 64), (64, 17))
    a, b = extremes(first, shapes[0], rng), extremes(second, shapes[1], rng)
    zeros = {2: first(3), 3: second(5)} if has_zeros else {}
    wide = [value.astype(np.int64) - int(zeros.get(place, 0)) for place, value in ((2, a), (3, b))]
    attributes = {"pads": [1, 1, 1, 1]} if operator == "ConvInteger" else {}
    return Case(operator, {0: a, 1: b, **zeros}, multiplied(operator, *wide), attributes=attributes)


def of_quantised(operator: str, first: type[Any], second: type[Any], result: type[Any]) -> Case:
    """QLinearConv, QLinearMatMul or QGemm, which quantise their sums again."""
    rng = np.random.default_rng(1)
    shapes = ((1, 8, 7, 7), (5, 8, 3, 3)) if operator == "QLinearConv" else ((9, 64), (64, 17))
    a, b, zero = extremes(first, shapes[0], rng), extremes(second, shapes[1], rng), result(7)
    operands = {0: a, 1: np.float32(1), 2: first(1), 3: b, 4: np.float32(1), 5: second(2)}
    bias = np.arange(shapes[1][0 if operator == "QLinearConv" else 1]) * 10_000
    sums = multiplied(operator, a.astype(np.int64) - 1, b.astype(np.int64) - 2)
    if operator == "QGemm":
        operands |= {6: bias.astype(np.int32), 7: np.float32(SCALE), 8: zero}
        sums = sums + bias
    else:
        operands |= {6: np.float32(SCALE), 7: zero}
    if operator == "QLinearConv":
        operands[8] = bias.astype(np.int32)
        sums = sums + bias[:, None, None]
    attributes = {"pads": [1, 1, 1, 1]} if operator == "QLinearConv" else {}
    return Case(operator, operands, quantised(sums, np.asarray(zero)), result, attributes=attributes)


def of_reals(operator: str, first: type[Any], second: type[Any]) -> Case:
    """Operators of ONNX Runtime's that give real numbers: here the sums, scaled by a power of two."""
    rng = np.random.default_rng(2)
    scale = np.float32(2**-10)
    if operator == "MatMulIntegerToFloat":
        a, b = extremes(first, (9, 64), rng), extremes(second, (64, 17), rng)
        operands = {0: a, 1: b, 2: np.float32(1), 3: scale, 4: first(3), 5: second(5)}
        return Case(operator, operands, (a.astype(np.int64) - 3) @ (b.astype(np.int64) - 5) * scale, np.float32)
    if operator == "QAttention":  # of one token: its own value
        a, b = extremes(first, (1, 1, 64), rng), extremes(second, (64, 3 * 64), rng)
        bias = np.zeros(3 * 64, np.float32)
        operands = {0: a, 1: b, 2: bias, 3: np.float32(1), 4: scale, 6: first(3), 7: second(5)}
        sums = (a.astype(np.int64) - 3) @ (b[:, 128:].astype(np.int64) - 5)
        return Case(operator, operands, sums * scale, np.float32, attributes={"num_heads": 2})
    real = extremes(np.uint8, (9, 64), rng).astype(np.float32)  # quantised with the scale 1
    if operator == "DynamicQuantizeMatMul":
        b = extremes(second, (64, 17), rng)
        operands = {0: real, 1: b, 2: scale, 3: second(5)}
        return Case(operator, operands, real.astype(np.int64) @ (b.astype(np.int64) - 5) * scale, np.float32)
    assert operator == "DynamicQuantizeLSTM"
    return of_lstm(second, real[None, :1], rng)


def of_lstm(second: type[Any], x: NDArray[Any], rng: np.random.Generator) -> Case:
    """One step from a state of zeros: only the gates of its input count."""
    hidden, scale = 8, np.float32(2**-16)
    weights = extremes(second, (1, x.shape[2], 4 * hidden), rng)
    again = extremes(second, (1, hidden, 4 * hidden), rng)
    scales = np.full(1, scale, np.float32)
    operands = {0: x, 1: weights, 2: again, 8: scales, 9: np.full(1, 5, second), 10: scales, 11: np.full(1, 5, second)}
    gates = x[0].astype(np.int64) @ (weights[0].astype(np.int64) - 5) * scale
    kept, out, _, new = np.split(gates, 4, axis=1)  # input, output, forget and cell
    state = np.tanh(new) / (1 + np.exp(-kept))
    expected = np.tanh(state) / (1 + np.exp(-out))
    return Case("DynamicQuantizeLSTM", operands, expected[None, None], np.float32, attributes={"hidden_size": hidden})


CASES = [
    *(of_integers(operator, *pair) for operator in ("ConvInteger", "MatMulInteger") for pair in PAIRS),
    *(of_integers(operator, *pair, has_zeros=False) for operator in ("ConvInteger", "MatMulInteger") for pair in PAIRS),
    *(
        of_quantised(operator, *pair, result)
        for operator in ("QLinearConv", "QLinearMatMul", "QGemm")
        for pair in PAIRS
        for result in INTEGERS
    ),
    *(of_reals(operator, *pair) for operator in ("MatMulIntegerToFloat", "QAttention") for pair in PAIRS),
    *(
        of_reals(operator, np.uint8, of)
        for operator in ("DynamicQuantizeMatMul", "DynamicQuantizeLSTM")
        for of in INTEGERS
    ),
]

WHERE = ("", "unknown", "If", "Loop")


def with_computed_weights(case: Case) -> Case:
    return replace(case, computed=(0, PRODUCTS[case.operator].factors[-1][0]))


def name_of(case: Case) -> str:
    types = [np.asarray(value).dtype.name for _, value in sorted(case.operands.items())]
    return f"{case.operator}-{'-'.join(t for t in types if t.endswith('int8'))}"


def test_every_product_is_tried() -> None:
    assert {case.operator for case in CASES} == set(PRODUCTS)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_is_exact(case: Case, where: str) -> None:
    require_exact(case, where)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("case", [case for case in CASES if case.operator != "DynamicQuantizeLSTM"], ids=name_of)
def test_is_exact_with_computed_weights(case: Case, where: str) -> None:
    require_exact(with_computed_weights(case), where)


def require_exact(case: Case, where: str) -> None:
    content = case.model(where).SerializeToString()
    came = np.asarray(HostModel(content).run(["y"], case.inputs)["y"]).reshape(case.expected.shape)
    if case.result == np.float32:
        assert np.allclose(came, case.expected, rtol=1e-5, atol=1e-6)
    else:
        assert came.dtype == case.result
        assert np.array_equal(came, case.expected)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("case", [each for case in CASES for each in (case, with_computed_weights(case))], ids=name_of)
def test_only_uint8_is_multiplied(case: Case, where: str) -> None:
    graph = with_exact_products(case.model(where)).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in graph.input}
    nodes = [*graph.node, *(node for outer in graph.node for a in outer.attribute for node in a.g.node)]
    types |= {node.output[0]: node.attribute[0].i for node in nodes if node.op_type == "Cast"}
    types |= {f"{name}.same": of for name, of in types.items()}  # after an operator that is unknown to ONNX
    products = [node for node in nodes if node.op_type == case.operator]
    assert products
    for node in products:
        for places in PRODUCTS[case.operator].factors:
            assert {types[node.input[at]] for at in places if node.input[at:] and node.input[at]} <= {TensorProto.UINT8}


def test_a_model_that_is_exact_stays_as_it_is() -> None:
    model = of_integers("MatMulInteger", np.uint8, np.uint8).model()
    assert with_exact_products(model) is model


def test_a_constant_is_made_once() -> None:
    """Two products read the same weights, which are not converted in every run."""
    case = of_integers("MatMulInteger", np.uint8, np.int8)
    model = case.model()
    model.graph.node.add().CopyFrom(model.graph.node[0])
    model.graph.node[1].output[0] = "again"
    made = with_exact_products(model).graph
    assert [node.op_type for node in made.node] == ["MatMulInteger"] * 2
    assert made.node[0].input == made.node[1].input


def test_an_unknown_type_is_refused() -> None:
    """In a body, behind an operator unknown to ONNX, and without a zero point that would tell."""
    case = of_integers("MatMulInteger", np.uint8, np.int8, has_zeros=False)
    model = case.model("unknown")
    whole = inside("If", list(model.graph.node))
    del model.graph.node[:]
    model.graph.node.append(whole)
    with pytest.raises(InputError) as refused:
        with_exact_products(model)
    assert str(refused.value).endswith("is not known, so its product may not be exact")


@pytest.mark.long
@pytest.mark.parametrize("processor", ["Haswell", "Nehalem"])
def test_is_exact_on_a_processor_without_vnni(processor: str) -> None:
    """With AVX2, where ONNX Runtime limits sums of two products, and without."""
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("needs qemu-x86_64")
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "is_exact",
        str(Path(__file__)),
    ]
    run = subprocess.run([emulator, "-cpu", processor, *tests], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout
