"""One float network, and the forms in which quantisers of ONNX models write it down.

Two convolutions, their sum, a depthwise one with Sigmoid and Mul (a swish), the average of the image, a dense layer. A
style says how values and parameters of a layer become integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import run_onnx

MICROSOFT = "com.microsoft"
SIZE, CHANNELS, INSIDE, CLASSES = 8, 3, 8, 5
SAMPLES = 4


@dataclass
class Style:
    """How a quantiser writes: types, steps, which operators. Nothing of it is set: the float network itself."""

    opset: int = 17
    domain: str = ""  # of QuantizeLinear and DequantizeLinear
    activations: str = ""  # element type; empty for floats
    weights: str = "int8"  # element type; "float" for a QuantizeLinear of float weights
    bias: str = "int32"  # element type; "float", or "int8" with a scale of its own
    per_channel: bool = True
    symmetric: bool = False
    powers_of_two: bool = False
    clips: tuple[int, int] | None = None  # a Clip between QuantizeLinear and DequantizeLinear
    weight_bits: int = 8
    clips_weights: bool = False
    last: bool = False  # images [N, H, W, C], with Transposes around each convolution
    transposes_weights: bool = False
    constants_are_nodes: bool = False
    leaves_open: bool = False  # the batch
    names: Callable[[str], str] = lambda name: name


@dataclass
class Net:
    """A model under way; tensors are passed by name."""

    style: Style
    ranges: dict[str, tuple[float, float]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    kept: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: Any) -> str:
        name = self.style.names(name)
        tensor = numpy_helper.from_array(np.asarray(value), name)
        if self.style.constants_are_nodes:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=tensor))
        else:
            self.kept[name] = tensor
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        name = self.style.names(name)
        made = helper.make_node(kind, list(inputs), [f"{name}_output_0"], name=name, domain=domain, **attributes)
        self.nodes.append(made)
        return str(made.output[0])

    # -- integers ------------------------------------------------------------------------------------------------------

    def value(self, x: str, name: str) -> str:
        """A value of the network, as the style stores it."""
        style = self.style
        if not style.activations:
            return x
        scale, zero = self._steps(name)
        parts = [self.constant(f"{name}_scale", scale), self.constant(f"{name}_zero_point", zero)]
        x = self.node("QuantizeLinear", [x, *parts], f"{name}_QuantizeLinear", style.domain)
        if style.clips is not None:
            limits = [self.constant(f"{name}_{i}", np.array(n, style.activations)) for i, n in enumerate(style.clips)]
            x = self.node("Clip", [x, *limits], f"{name}_Clip")
        return self.node("DequantizeLinear", [x, *parts], f"{name}_DequantizeLinear", style.domain)

    def _steps(self, name: str) -> tuple[NDArray[np.float32], NDArray[Any]]:
        low, high = self.ranges[name]
        limits = np.iinfo(self.style.activations)
        if self.style.symmetric or self.style.powers_of_two:
            scale = max(-low, high) / limits.max
            if self.style.powers_of_two:
                scale = 2.0 ** np.ceil(np.log2(scale))
            return np.array(scale, np.float32), np.array(0, limits.dtype)
        scale = (high - low) / (limits.max - limits.min)
        return np.array(scale, np.float32), np.array(round(limits.min - low / scale), limits.dtype)

    def weight(self, values: NDArray[np.float32], name: str) -> str:
        style = self.style
        if not style.activations:
            return self._turned(self.constant(f"{name}.weight", self._in_file(values)), values.ndim, name)
        most = 2 ** (style.weight_bits - 1) - 1
        axes = tuple(range(1, values.ndim)) if style.per_channel else None
        scale = (np.abs(values).max(axis=axes) / most).astype(np.float32)
        if style.powers_of_two:
            scale = (2.0 ** np.ceil(np.log2(scale))).astype(np.float32)
        along = scale.reshape(-1, *(1 for _ in values.shape[1:])) if style.per_channel else scale
        integers = np.clip(np.rint(values / along), -most, most).astype(np.int8)
        axis = {"axis": values.ndim - 1 if self._is_turned(values.ndim) else 0} if style.per_channel else {}
        parts = [
            self.constant(f"{name}.w_scale", scale),
            self.constant(f"{name}.w_zero", np.zeros(scale.shape, np.int8)),
        ]
        if style.weights == "float":
            stored = self.constant(f"{name}.weight", self._in_file(values))
            stored = self.node("QuantizeLinear", [stored, *parts], f"{name}.w_QuantizeLinear", style.domain, **axis)
        else:
            stored = self.constant(f"{name}.weight", self._in_file(integers))
        if style.clips_weights:
            limits = [self.constant(f"{name}.w_{i}", np.array(n, np.int8)) for i, n in enumerate((-most, most))]
            stored = self.node("Clip", [stored, *limits], f"{name}.w_Clip")
        real = self.node("DequantizeLinear", [stored, *parts], f"{name}.w_DequantizeLinear", style.domain, **axis)
        self.weight_scale = scale
        return self._turned(real, values.ndim, name)

    def _is_turned(self, rank: int) -> bool:
        return self.style.transposes_weights and rank == 4

    def _in_file(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(values.transpose(2, 3, 1, 0)) if self._is_turned(values.ndim) else values

    def _turned(self, weight: str, rank: int, name: str) -> str:
        return (
            self.node("Transpose", [weight], f"{name}.turned", perm=[3, 2, 0, 1]) if self._is_turned(rank) else weight
        )

    def bias(self, values: NDArray[np.float32], name: str, source: str) -> str:
        style = self.style
        if not style.activations or style.bias == "float":
            return self.constant(f"{name}.bias", values)
        if style.bias == "int8":
            scale = np.array(2.0 ** np.ceil(np.log2(np.abs(values).max() / 127)), np.float32)
            zeros: list[str] = [self.constant(f"{name}.b_zero", np.array(0, np.int8))]
        else:
            scale, zeros = self._steps(source)[0] * self.weight_scale, []
        integers = np.rint(values / scale).astype(style.bias)
        axis = {"axis": 0} if np.ndim(scale) and style.opset >= 13 else {}
        parts = [
            self.constant(f"{name}.bias", integers),
            self.constant(f"{name}.b_scale", np.asarray(scale, np.float32)),
        ]
        return self.node("DequantizeLinear", [*parts, *zeros], f"{name}.b_DequantizeLinear", style.domain, **axis)

    # -- layers --------------------------------------------------------------------------------------------------------

    def conv(self, x: str, name: str, source: str, **attributes: Any) -> str:
        weights, bias = layers()[name]
        if self.style.last:
            x = self.node("Transpose", [x], f"{name}.first", perm=[0, 3, 1, 2])
        parameters = [self.weight(weights, name), self.bias(bias, name, source)]
        x = self.node("Conv", [x, *parameters], name, kernel_shape=list(weights.shape[2:]), **attributes)
        return self.node("Transpose", [x], f"{name}.last", perm=[0, 2, 3, 1]) if self.style.last else x


@cache
def layers() -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Weights and biases, the same in every style."""
    rng = np.random.default_rng(5)
    shapes = {
        "conv1": (INSIDE, CHANNELS, 3, 3),
        "conv2": (INSIDE, INSIDE, 1, 1),
        "depthwise": (INSIDE, 1, 3, 3),
        "fc": (CLASSES, INSIDE),
    }
    return {
        name: (
            (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32),
            rng.uniform(-0.5, 0.5, shape[0]).astype(np.float32),
        )
        for name, shape in shapes.items()
    }


def model(style: Style) -> onnx.ModelProto:
    """The network in a style; its steps are those that samples of the float network need."""
    return _model(style, _ranges() if style.activations else {})


def _model(style: Style, ranges: dict[str, tuple[float, float]]) -> onnx.ModelProto:
    net = Net(style, ranges)
    x = net.value("input", "input")
    first = net.node("Relu", [net.conv(x, "conv1", "input", pads=[1, 1, 1, 1])], "relu")
    first = net.value(first, "relu")
    second = net.value(net.conv(first, "conv2", "relu"), "conv2")
    total = net.value(net.node("Add", [first, second], "add"), "add")
    deep = net.value(net.conv(total, "depthwise", "add", pads=[1, 1, 1, 1], group=INSIDE), "depthwise")
    share = net.value(net.node("Sigmoid", [deep], "sigmoid"), "sigmoid")
    swish = net.value(net.node("Mul", [deep, share], "mul"), "mul")
    axes = [1, 2] if style.last else [2, 3]
    if style.opset < 18:
        mean = net.node("ReduceMean", [swish], "mean", axes=axes, keepdims=0)
    else:
        mean = net.node("ReduceMean", [swish, net.constant("axes", np.array(axes))], "mean", keepdims=0)
    mean = net.value(mean, "mean")
    weights, bias = layers()["fc"]
    parameters = [net.weight(weights, "fc"), net.bias(bias, "fc", "mean")]
    scores = net.value(net.node("Gemm", [mean, *parameters], "fc", transB=1), "fc")
    net.nodes.append(helper.make_node("Identity", [scores], ["output"], name="Identity"))
    batch: int | str = "batch" if style.leaves_open else 1
    shape = [batch, SIZE, SIZE, CHANNELS] if style.last else [batch, CHANNELS, SIZE, SIZE]
    opsets = [helper.make_opsetid("", style.opset)]
    if style.domain:
        opsets.append(helper.make_opsetid(style.domain, 1))
    graph = helper.make_graph(
        net.nodes,
        "main_graph",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, CLASSES])],
        list(net.kept.values()),
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if style.opset >= 21 else 8)


@cache
def _ranges() -> dict[str, tuple[float, float]]:
    """The least and greatest number of each value of the float network, zero among them."""
    plain = _model(Style(), {})
    outputs = {node.name: node.output[0] for node in plain.graph.node}
    names = ("relu", "conv2", "add", "depthwise", "sigmoid", "mul", "mean", "fc")
    for name in names:
        plain.graph.output.append(helper.make_tensor_value_info(outputs[name], TensorProto.FLOAT, None))
    found = {"input": (-4.0, 4.0)}
    for values in samples():
        came = run_onnx(plain, {"input": values})
        for name in names:
            low, high = found.get(name, (0.0, 0.0))
            reached = came[outputs[name]]
            found[name] = (min(low, float(reached.min())), max(high, float(reached.max())))
    return found


def samples() -> list[NDArray[np.float32]]:
    """Images of the network."""
    rng = np.random.default_rng(6)
    return [rng.normal(size=(1, CHANNELS, SIZE, SIZE)).astype(np.float32) for _ in range(SAMPLES)]
