"""Small float networks with random weights, in the forms in which exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import run_onnx

CHANNELS, SIZE, CLASSES = 8, 12, 10
IMAGE = (1, 3, SIZE, SIZE)


class FloatBuilder:
    """Collects float nodes; each result is called like its node, with `.out`."""

    def __init__(self, seed: int = 0, opset: int = 17) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str = "image", shape: Sequence[int | str] = IMAGE, element: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, list(shape)))
        return name

    def constant(self, name: str, value: Any) -> str:
        value = np.asarray(value)
        self.constants.append(
            numpy_helper.from_array(value.astype(np.float32) if value.dtype.kind == "f" else value, name)
        )
        return name

    def normal(self, name: str, *shape: int, scale: float = 1.0) -> str:
        return self.constant(name, self.rng.normal(0, scale, shape))

    def node(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}.out"], name, **attributes))
        return f"{name}.out"

    def conv(
        self, name: str, x: str, channels: int, outputs: int, *, group: int = 1, stride: int = 1, bias: bool = True
    ) -> str:
        fan_in = 9 * channels // group
        inputs = [x, self.normal(f"{name}.weight", outputs, channels // group, 3, 3, scale=(2 / fan_in) ** 0.5)]
        if bias:
            inputs.append(self.normal(f"{name}.bias", outputs, scale=0.1))
        return self.node("Conv", name, *inputs, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2, group=group)

    def batch_norm(self, name: str, x: str, channels: int) -> str:
        around_one = 1 + 0.2 * self.rng.standard_normal((2, channels))
        near_zero = 0.2 * self.rng.standard_normal((2, channels))
        parts = {"scale": around_one[0], "shift": near_zero[0], "mean": near_zero[1], "variance": np.abs(around_one[1])}
        return self.node("BatchNormalization", name, x, *(self.constant(f"{name}.{k}", v) for k, v in parts.items()))

    def build(self, *outputs: str, name: str = "float", element: int = TensorProto.FLOAT) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(output, element, None) for output in outputs]
        graph = helper.make_graph(self.nodes, name, self.inputs, values, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def cnn() -> onnx.ModelProto:
    """Convolutions with batch normalisation and without, pooling, a dense layer with a bias [1, N]."""
    b = FloatBuilder()
    x = b.node("Relu", "relu1", b.batch_norm("bn1", b.conv("conv1", b.input(), 3, CHANNELS, bias=False), CHANNELS))
    x = b.node("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("Relu", "relu2", b.conv("conv2", x, CHANNELS, 2 * CHANNELS))
    x = b.node("Dropout", "drop", b.node("Identity", "same", x))
    x = b.node("Flatten", "flat", b.node("GlobalAveragePool", "average", x))
    inputs = b.normal("dense.weight", 2 * CHANNELS, CLASSES, scale=0.3), b.normal("dense.bias", 1, CLASSES, scale=0.1)
    return b.build(b.node("Gemm", "dense", x, *inputs))


def mlp() -> onnx.ModelProto:
    """Dense layers as MatMul and Add, as Gemm with alpha and beta, and with transposed weights."""
    b = FloatBuilder()
    x = b.node("MatMul", "one", b.input("x", (1, 20)), b.normal("one.weight", 20, 32, scale=0.3))
    x = b.node("Relu", "relu", b.node("Add", "one.add", x, b.normal("one.bias", 32, scale=0.1)))
    x = b.node(
        "Gemm",
        "two",
        x,
        b.normal("two.weight", 24, 32, scale=0.3),
        b.normal("two.bias", 24),
        transB=1,
        alpha=0.5,
        beta=0.25,
    )
    x = b.node(
        "Gemm", "three", x, b.normal("three.weight", 24, 6, scale=0.3), b.constant("three.bias", np.array([0.5]))
    )
    return b.build(x)


def residual() -> onnx.ModelProto:
    b = FloatBuilder()
    x = b.node("Relu", "relu1", b.conv("conv1", b.input(), 3, CHANNELS))
    y = b.node("Relu", "relu2", b.conv("conv2", x, CHANNELS, CHANNELS))
    x = b.node("Relu", "relu3", b.node("Add", "add", x, b.conv("conv3", y, CHANNELS, CHANNELS)))
    return b.build(b.node("GlobalAveragePool", "average", x))


def depthwise() -> onnx.ModelProto:
    """A depthwise and a pointwise-like convolution, each limited to 0 … 6."""
    b = FloatBuilder()
    low, high = b.constant("low", np.array(0.0)), b.constant("high", np.array(6.0))
    x = b.node("Clip", "six1", b.conv("conv", b.input(), 3, CHANNELS), low, high)
    x = b.conv("depthwise", x, CHANNELS, CHANNELS, group=CHANNELS, stride=2, bias=False)
    return b.build(b.node("Clip", "six2", b.batch_norm("bn", x, CHANNELS), low, high))


def joined() -> onnx.ModelProto:
    """A Concat of a pooled tensor and two convolutions, one without a Relu."""
    b = FloatBuilder()
    x = b.input()
    one = b.node("Relu", "relu1", b.conv("conv1", x, 3, CHANNELS))
    two = b.node("MaxPool", "pool", b.conv("conv2", x, 3, CHANNELS), kernel_shape=[3, 3], pads=[1] * 4)
    x = b.node("Concat", "join", one, two, b.conv("conv3", x, 3, CHANNELS), axis=1)
    return b.build(b.conv("conv4", x, 3 * CHANNELS, CHANNELS))


def normalised() -> onnx.ModelProto:
    """Batch normalisation in front of a convolution, and a mean and deviation taken from the input."""
    b = FloatBuilder()
    x = b.node("Sub", "sub", b.input(), b.normal("mean", 1, 3, 1, 1, scale=0.1))
    x = b.node("Mul", "mul", x, b.constant("deviation", np.full((3, 1, 1), 1.5)))
    x = b.conv("conv1", x, 3, CHANNELS)
    x = b.node("Relu", "relu", b.batch_norm("bn", b.node("Relu", "before", x), CHANNELS))
    return b.build(b.conv("conv2", x, CHANNELS, CHANNELS))


def added_bias() -> onnx.ModelProto:
    """A convolution whose bias is an Add, before a batch normalisation."""
    b = FloatBuilder()
    x = b.node(
        "Add", "shift", b.conv("conv", b.input(), 3, CHANNELS, bias=False), b.normal("shift.by", 1, CHANNELS, 1, 1)
    )
    return b.build(b.node("Relu", "relu", b.batch_norm("bn", x, CHANNELS)))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    network.__name__: network for network in (cnn, mlp, residual, depthwise, joined, normalised, added_bias)
}


def samples(model: onnx.ModelProto, count: int, seed: int = 1) -> dict[str, NDArray[np.float32]]:
    """Normal samples of every input, [count, …]: the first size of an input is 1."""
    rng = np.random.default_rng(seed)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: rng.standard_normal((count, *shape[1:]), np.float32) for name, shape in shapes.items()}


def run_all(model: onnx.ModelProto, data: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The first output on each sample, by ONNX Runtime without optimisations."""
    count = len(next(iter(data.values())))
    rows = [run_onnx(model, {name: array[i : i + 1] for name, array in data.items()}) for i in range(count)]
    return np.concatenate([next(iter(row.values())) for row in rows]).astype(np.float64)


def decibel(exact: NDArray[np.float64], noisy: NDArray[np.float64]) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(exact - noisy).sum()))
