"""QOperator models: each operator, and whole networks of ONNX Runtime's quantiser, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import OPSET
from tests.compiler.pipelines import distances, lowered, simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.simplify.qoperators import FORMS

ELEMENT: dict[type, int] = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}
MICROSOFT = "com.microsoft"


class QModel:
    """One QLinear operator between int8 or uint8 inputs and its result."""

    def __init__(self, seed: int, activation: type) -> None:
        self.rng = np.random.default_rng(seed)
        self.activation = activation
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def constant(self, name: str, value: Any) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def meaning(self, name: str, scale: float) -> list[str]:
        """A scale, and a zero point anywhere in the type."""
        limits = np.iinfo(self.activation)
        zero = self.rng.integers(limits.min, limits.max + 1)
        return [
            self.constant(f"{name}_scale", np.float32(scale)),
            self.constant(f"{name}_zero", np.array(zero, self.activation)),
        ]

    def input(self, name: str, shape: Sequence[int], scale: float) -> list[str]:
        self.inputs.append(helper.make_tensor_value_info(name, ELEMENT[self.activation], shape))
        return [name, *self.meaning(name, scale)]

    def weights(self, shape: Sequence[int], channels: int | None) -> list[str]:
        """Symmetric int8 weights, with one scale or one for each of so many channels."""
        counts = () if channels is None else (channels,)
        return [
            self.constant("w", self.rng.integers(-127, 128, size=shape).astype(np.int8)),
            self.constant("w_scale", self.rng.uniform(0.002, 0.02, size=counts).astype(np.float32)),
            self.constant("w_zero", np.zeros(counts, np.int8)),
        ]

    def bias(self, count: int) -> str:
        return self.constant("bias", self.rng.integers(-9000, 9000, size=count).astype(np.int32))

    def build(self, op_type: str, inputs: Sequence[str], rank: int, domain: str = "", **given: Any) -> onnx.ModelProto:
        node = helper.make_node(op_type, inputs, ["y"], name="node", domain=domain, **given)
        y = helper.make_tensor_value_info("y", ELEMENT[self.activation], [None] * rank)
        graph = helper.make_graph([node], op_type, self.inputs, [y], self.initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def qlinear_conv(model: QModel) -> onnx.ModelProto:
    inputs = [*model.input("x", [2, 6, 9, 11], 0.04), *model.weights([10, 3, 3, 2], 10), *model.meaning("y", 0.1)]
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1], "group": 2}
    return model.build("QLinearConv", [*inputs, model.bias(10)], 4, **window)


def qlinear_matmul(model: QModel) -> onnx.ModelProto:
    inputs = [*model.input("x", [40, 24], 0.04), *model.weights([24, 30], 30), *model.meaning("y", 0.3)]
    return model.build("QLinearMatMul", inputs, 2)


def qlinear_add(model: QModel) -> onnx.ModelProto:
    a, b = model.input("a", [1, 20, 8, 9], 0.0912345), model.input("b", [1, 20, 8, 9], 0.0367891)
    return model.build("QLinearAdd", [*a, *b, *model.meaning("y", 0.1123581)], 4, MICROSOFT)


def qlinear_average_pool(model: QModel) -> onnx.ModelProto:
    inputs = [*model.input("x", [1, 20, 9, 9], 0.0912345), *model.meaning("y", 0.0812347)]
    window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    return model.build("QLinearAveragePool", inputs, 4, MICROSOFT, **window)


def qlinear_global_average_pool(model: QModel) -> onnx.ModelProto:
    inputs = [*model.input("x", [3, 40, 7, 5], 0.0912345), *model.meaning("y", 0.0312347)]
    return model.build("QLinearGlobalAveragePool", inputs, 4, MICROSOFT)


def qgemm(model: QModel) -> onnx.ModelProto:
    inputs = [*model.input("x", [40, 24], 0.04), *model.weights([30, 24], 30), model.bias(30), *model.meaning("y", 0.3)]
    return model.build("QGemm", inputs, 2, MICROSOFT, transB=1)


def qlinear_concat(model: QModel) -> onnx.ModelProto:
    parts = [*model.input("a", [2, 20, 9, 7], 0.0912345), *model.input("b", [2, 13, 9, 7], 0.0712345)]
    return model.build("QLinearConcat", [*model.meaning("y", 0.0812347), *parts, *parts[:3]], 4, MICROSOFT, axis=1)


OPERATORS: dict[str, Callable[[QModel], onnx.ModelProto]] = {
    "onnx.QLinearConv": qlinear_conv,
    "onnx.QLinearMatMul": qlinear_matmul,
    "onnx.QLinearAdd": qlinear_add,
    "onnx.QLinearAveragePool": qlinear_average_pool,
    "onnx.QLinearGlobalAveragePool": qlinear_global_average_pool,
    "onnx.QGemm": qgemm,
    "onnx.QLinearConcat": qlinear_concat,
}


def test_every_operator_has_a_model() -> None:
    assert OPERATORS.keys() == FORMS.keys()


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", OPERATORS)
def test_is_within_one_step_and_nearly_always_equal(kind: str, activation: type) -> None:
    model = OPERATORS[kind](QModel(7, activation))
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=12)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999, f"{(apart != 0).sum()} of {apart.size}"


def float_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Conv, Relu, MaxPool, a residual block, GlobalAveragePool, Gemm."""
    weights: list[onnx.TensorProto] = []

    def constant(name: str, *shape: int) -> str:
        values = rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", constant("w1", 16, 3, 3, 3), constant("b1", 16)], ["c1"], "c1", **window),
        helper.make_node("Relu", ["c1"], ["r1"], "r1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "p1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", constant("w2", 16, 16, 3, 3), constant("b2", 16)], ["c2"], "c2", **window),
        helper.make_node("Add", ["c2", "p1"], ["s"], "s"),
        helper.make_node("Relu", ["s"], ["r2"], "r2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"], "g"),
        helper.make_node("Flatten", ["g"], ["f"], "f"),
        helper.make_node("Gemm", ["f", constant("w3", 10, 16), constant("b3", 10)], ["y"], "y", transB=1),
    ]
    x = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 12, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


class Calibration:
    """Eight images for ONNX Runtime's quantiser."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._left = [rng.uniform(-12, 12, size=(1, 3, 12, 12)).astype(np.float32) for _ in range(8)]

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return {"image": self._left.pop()} if self._left else None


@pytest.mark.parametrize("activation", ["QInt8", "QUInt8"])
def test_a_network_of_the_quantiser_stays_close(activation: str, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    onnx.save(float_network(np.random.default_rng(3)), tmp_path / "float.onnx")
    quantize_static(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", Calibration(), quant_format=QuantFormat.QOperator,
        activation_type=QuantType[activation], weight_type=QuantType.QInt8, per_channel=True,
    )  # fmt: skip
    model = onnx.load(tmp_path / "int8.onnx")
    kinds = {node.op_type for node in model.graph.node}
    assert {"QLinearConv", "QLinearAdd", "QLinearGlobalAveragePool", "QGemm"} <= kinds
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=20)
    assert apart.max() <= 2
    assert (apart == 0).mean() >= 0.9


def test_layers_keep_the_nodes_names() -> None:
    (conv,) = (o for o in simplified(qlinear_conv(QModel(1, np.int8))).operators if o.kind == "conv")
    assert (conv.name, conv.nodes) == ("node", ("node",))


def refusal(model: onnx.ModelProto) -> str:
    with pytest.raises(CompileError) as refused:
        simplified(model)
    return str(refused.value)


def test_channels_last_is_refused() -> None:
    model = qlinear_global_average_pool(QModel(1, np.int8))
    model.graph.node[0].attribute.append(helper.make_attribute("channels_last", 1))
    assert refusal(model) == (
        "node 'node' (QLinearGlobalAveragePool): channels_last = 1 has no lowering; expected 0: [N, C, H, W]"
    )


def test_an_attribute_that_nobody_reads_is_refused() -> None:
    model = qlinear_add(QModel(1, np.int8))
    model.graph.node[0].attribute.append(helper.make_attribute("colour", 1))
    assert refusal(model) == "node 'node' (Add): attribute 'colour' has no lowering; remove it"


def test_an_operand_that_is_left_out_is_refused() -> None:
    model = qlinear_average_pool(QModel(1, np.uint8))
    model.graph.node[0].input[2] = ""
    assert refusal(model) == (
        "node 'node' (QLinearAveragePool): an operand, scale or zero point is left out; expected all of them"
    )


def test_a_scale_for_each_channel_of_an_activation_is_refused() -> None:
    model = qgemm(QModel(1, np.int8))
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "x_scale")
    scale.CopyFrom(numpy_helper.from_array(np.ones(3, np.float32), "x_scale"))
    assert refusal(model) == "node 'node' (QGemm): expected constant scales, and one for its input"


def test_another_operator_of_the_domain_is_named() -> None:
    model = qlinear_add(QModel(1, np.int8))
    model.graph.node[0].op_type = "QLinearAbs"
    text = refusal(model)
    assert text.startswith(
        "node 'node': unknown operator QLinearAbs of the domain 'com.microsoft'; expected operators of "
    )
    assert "QLinearAdd" in text and "QLinearSoftmax" in text
