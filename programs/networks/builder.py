"""Writes ONNX networks layer by layer: float nodes, opset 17, random weights that keep activations alive.

Every layer is named by its caller, and its weights depend on the network's seed and that name alone. A convolution
carries what training would have folded into it: a batch normalisation is a bias here, and counts as one in
`folded_channels`, because papers count two parameters for each normalised channel.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8

RELU_GAIN = 2.0
"""He's gain: what a relu takes of the variance, the weights in front of it give."""

LINEAR_GAIN = 1.0
BIAS_DEVIATION = 0.1

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Recurrent operator → how many matrices its weights are."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor between layers: its name and shape, which is [1, channels, height, width], [1, channels, length],
    [1, tokens, features], [1, features], or what a recurrent layer reads and makes.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        return self.shape[1]


class Builder:
    """Collects the nodes and weights of one network."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.folded_channels = 0
        self._seed = seed
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, NDArray[Any]] = {}
        self._inputs: list[onnx.ValueInfoProto] = []

    # -- ends ----------------------------------------------------------------------------------------------------------

    def input(self, name: str, *shape: int) -> Value:
        """An input of the network, batch 1: `input("image", 3, 224, 224)` is [1, 3, 224, 224]."""
        full = (1, *shape)
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, full))
        return Value(name, full)

    def model(self, **outputs: Value) -> onnx.ModelProto:
        """The network with these outputs, renamed to the names given; checked, shapes inferred."""
        renamed = {value.name: name for name, value in outputs.items()}
        for node in self._nodes:
            node.output[:] = [renamed.get(name, name) for name in node.output]
            node.input[:] = [renamed.get(name, name) for name in node.input]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, value.shape) for n, value in outputs.items()]
        weights = [numpy_helper.from_array(array, name) for name, array in self._weights.items()]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, made, weights)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="programs.networks")
        onnx.checker.check_model(model, full_check=True)
        return model

    # -- products ------------------------------------------------------------------------------------------------------

    def conv(
        self,
        name: str,
        source: Value,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        *,
        stride: int = 1,
        dilation: int = 1,
        padding: str = "symmetric",
        groups: int = 1,
        gain: float = RELU_GAIN,
        is_normalised: bool = True,
        has_bias: bool = True,
    ) -> Value:
        """A convolution with bias, over an image or a length. `padding`: `symmetric` (half the kernel), `same`
        (TensorFlow's) or `valid`. `dilation` pixels lie between the taps of the kernel, counted from one to the next.
        """
        spatial = len(source.shape) - 2
        window = (kernel,) * spatial if isinstance(kernel, int) else kernel
        reach = tuple((taps - 1) * dilation + 1 for taps in window)
        begins, ends = _pads(padding, source.shape[2:], reach, stride)
        size = [
            (length + begin + end - taps) // stride + 1
            for length, begin, end, taps in zip(source.shape[2:], begins, ends, reach, strict=True)
        ]
        shape = (channels, source.channels // groups, *window)
        inputs = [source.name, self._normal(f"{name}.weight", shape, gain, prod(shape[1:]))]
        if has_bias:
            inputs.append(self._bias(name, channels))
        if is_normalised:
            self.folded_channels += channels
        strides = [stride] * spatial
        attributes = {"kernel_shape": list(window), "strides": strides, "pads": [*begins, *ends], "group": groups}
        if dilation != 1:
            attributes["dilations"] = [dilation] * spatial
        return self._node("Conv", name, inputs, (1, channels, *size), **attributes)

    def depthwise(
        self,
        name: str,
        source: Value,
        kernel: int = 3,
        *,
        stride: int = 1,
        dilation: int = 1,
        padding: str = "symmetric",
    ) -> Value:
        """A convolution of each channel by itself."""
        channels = source.channels
        return self.conv(
            name, source, channels, kernel, stride=stride, dilation=dilation, padding=padding, groups=channels
        )

    def up_conv(self, name: str, source: Value, channels: int) -> Value:
        """A transposed 2×2 convolution with stride 2: twice the height and width."""
        weight = self._normal(f"{name}.weight", (source.channels, channels, 2, 2), LINEAR_GAIN, source.channels)
        height, width = source.shape[2:]
        inputs = [source.name, weight, self._bias(name, channels)]
        shape = (1, channels, 2 * height, 2 * width)
        return self._node("ConvTranspose", name, inputs, shape, kernel_shape=[2, 2], strides=[2, 2])

    def dense(
        self, name: str, source: Value, features: int, *, gain: float = LINEAR_GAIN, is_normalised: bool = False
    ) -> Value:
        """A fully connected layer on [1, features]."""
        fan_in = source.shape[1]
        self.folded_channels += features * is_normalised
        weight = self._normal(f"{name}.weight", (features, fan_in), gain, fan_in)
        return self._node("Gemm", name, [source.name, weight, self._bias(name, features)], (1, features), transB=1)

    def linear(
        self, name: str, source: Value, features: int, *, gain: float = LINEAR_GAIN, has_bias: bool = True
    ) -> Value:
        """A fully connected layer on each of [1, tokens, features], as exporters write it: a MatMul and an Add."""
        fan_in = source.shape[-1]
        weight = self._normal(f"{name}.weight", (fan_in, features), gain, fan_in)
        shape = (*source.shape[:-1], features)
        if not has_bias:
            return self._node("MatMul", name, [source.name, weight], shape)
        product = self._node("MatMul", f"{name}.product", [source.name, weight], shape)
        return self._node("Add", name, [product.name, self._bias(name, features)], shape)

    def matmul(self, name: str, left: Value, right: Value) -> Value:
        """Products of the matrices in the last two dimensions, [.., M, K] · [.., K, N]."""
        return self._node("MatMul", name, [left.name, right.name], (*left.shape[:-1], right.shape[-1]))

    def parameter(self, name: str, shape: tuple[int, ...], *, gain: float) -> Value:
        """Numbers that training finds and that no layer multiplies by."""
        return Value(self._normal(name, shape, gain, 1), shape)

    def constant(self, name: str, values: NDArray[Any]) -> Value:
        """Numbers that follow from the network's form."""
        return Value(self._keep(name, values), values.shape)

    def recurrent(
        self, kind: str, name: str, source: Value, hidden: int, *, directions: int = 1, states: Sequence[Value] = ()
    ) -> list[Value]:
        """An LSTM, GRU or RNN over [steps, 1, features]: all hidden values [steps, directions, 1, H], and the last
        states [directions, 1, H]. The first `states` are zeros unless they are given.
        """
        steps, _, features = source.shape
        rows = GATES[kind] * hidden
        shapes = {"weight": (directions, rows, features), "recurrence": (directions, rows, hidden)}
        inputs = [self._normal(f"{name}.{p}", shape, LINEAR_GAIN, shape[-1]) for p, shape in shapes.items()]
        inputs.append(self._biases(f"{name}.bias", (directions, 2 * rows)))
        if states:
            inputs += ["", *(state.name for state in states)]
        made = [Value(f"{name}.all", (steps, directions, 1, hidden))]
        made += [Value(f"{name}.last_{state}", (directions, 1, hidden)) for state in ("hc" if kind == "LSTM" else "h")]
        direction = "forward" if directions == 1 else "bidirectional"
        node = helper.make_node(
            kind, [source.name, *inputs], [value.name for value in made], name, hidden_size=hidden, direction=direction
        )
        self._nodes.append(node)
        return made

    # -- element by element --------------------------------------------------------------------------------------------

    def relu(self, source: Value) -> Value:
        return self._unary("Relu", "relu", source)

    def relu6(self, source: Value) -> Value:
        limits = [self._scalar("relu6.low", 0.0), self._scalar("relu6.high", 6.0)]
        return self._node("Clip", f"{source.name}.relu6", [source.name, *limits], source.shape)

    def leaky_relu(self, source: Value, slope: float) -> Value:
        return self._unary("LeakyRelu", "leaky", source, alpha=slope)

    def hard_swish(self, source: Value) -> Value:
        return self._unary("HardSwish", "hardswish", source)

    def hard_sigmoid(self, source: Value) -> Value:
        """relu6(x + 3) / 6."""
        return self._unary("HardSigmoid", "hardsigmoid", source, alpha=1 / 6, beta=0.5)

    def softmax(self, name: str, source: Value, axis: int = 1) -> Value:
        return self._node("Softmax", name, [source.name], source.shape, axis=axis)

    def sigmoid(self, source: Value) -> Value:
        return self._unary("Sigmoid", "sigmoid", source)

    def add(self, name: str, left: Value, right: Value) -> Value:
        return self._node("Add", name, [left.name, right.name], left.shape)

    def mul(self, name: str, left: Value, right: Value) -> Value:
        """A product; `right` may be [1, channels, 1, 1], the same for all positions."""
        return self._node("Mul", name, [left.name, right.name], left.shape)

    def scaled(self, name: str, source: Value, factor: float) -> Value:
        return self._node("Mul", name, [source.name, self._scalar(f"{name}.factor", factor)], source.shape)

    def negative(self, source: Value) -> Value:
        return self._unary("Neg", "negative", source)

    def gelu(self, source: Value) -> Value:
        """x · Φ(x), as exporters write it before opset 20: x · (1 + erf(x / √2)) / 2."""
        name = source.name
        over = self._node("Div", f"{name}.over", [name, self._scalar("gelu.root", float(np.sqrt(2)))], source.shape)
        error = self._unary("Erf", "erf", over)
        more = self._node("Add", f"{name}.more", [error.name, self._scalar("gelu.one", 1.0)], source.shape)
        product = self._node("Mul", f"{name}.gated", [name, more.name], source.shape)
        return self._node("Mul", f"{name}.gelu", [product.name, self._scalar("gelu.half", 0.5)], source.shape)

    def gelu_tanh(self, source: Value) -> Value:
        """x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2: Hendrycks and Gimpel (arXiv:1606.08415), section 2."""
        name = source.name

        def step(op_type: str, part: str, *inputs: str) -> str:
            return self._node(op_type, f"{name}.{part}", [*inputs], source.shape).name

        cube = step("Pow", "cube", name, self._scalar("gelu.three", 3.0))
        bent = step("Add", "bent", name, step("Mul", "part", cube, self._scalar("gelu.part", 0.044715)))
        wide = step("Mul", "wide", bent, self._scalar("gelu.wide", float(np.sqrt(2 / np.pi))))
        more = step("Add", "more", step("Tanh", "tanh", wide), self._scalar("gelu.one", 1.0))
        half = step("Mul", "half", name, self._scalar("gelu.half", 0.5))
        return self._node("Mul", f"{name}.gelu", [half, more], source.shape)

    def layer_norm(self, name: str, source: Value) -> Value:
        """Each token's features to a mean of 0 and a variance of 1, then with learned scales near 1 and biases."""
        scale, bias = self._scale_and_bias(name, source.shape[-1])
        return self._node("LayerNormalization", name, [source.name, scale, bias], source.shape, axis=-1)

    def no_norm(self, name: str, source: Value) -> Value:
        """Nothing but the learned scales and biases of a normalisation."""
        scale, bias = self._scale_and_bias(name, source.shape[-1])
        scaled = self._node("Mul", f"{name}.scaled", [source.name, scale], source.shape)
        return self._node("Add", name, [scaled.name, bias], source.shape)

    def rms_norm(self, name: str, source: Value) -> Value:
        """Each token's features to a mean square of 1, then with learned scales near 1; opset 23 has a node for it."""
        rows = (*source.shape[:-1], 1)
        square = self._node("Pow", f"{name}.square", [source.name, self._scalar("norm.two", 2.0)], source.shape)
        mean = self._node("ReduceMean", f"{name}.mean", [square.name], rows, axes=[-1])
        more = self._node("Add", f"{name}.more", [mean.name, self._scalar("norm.epsilon", 1e-5)], rows)
        root = self._unary("Sqrt", "root", more)
        over = self._node("Div", f"{name}.over", [self._scalar("norm.one", 1.0), root.name], rows)
        even = self._node("Mul", f"{name}.even", [source.name, over.name], source.shape)
        scale = self._keep(f"{name}.scale", 1.0 + 0.1 * self._random(name).standard_normal(source.shape[-1]))
        return self._node("Mul", name, [scale, even.name], source.shape)

    def exp(self, source: Value) -> Value:
        return self._unary("Exp", "exp", source)

    def with_constant(self, op_type: str, name: str, source: Value, values: NDArray[Any]) -> Value:
        """Add, Mul, … of a tensor and numbers that follow from the network's form, which broadcast to its shape."""
        return self._node(op_type, name, [source.name, self._keep(f"{name}.constant", values)], source.shape)

    def batch_norm(self, name: str, source: Value) -> Value:
        """A batch normalisation that stays a node, with statistics near those of a trained one."""
        channels, random = source.channels, self._random(name)
        around_one = 1.0 + 0.1 * random.standard_normal((2, channels))
        near_zero = 0.1 * random.standard_normal((2, channels))
        statistics = {"scale": around_one[0], "shift": near_zero[0], "mean": near_zero[1], "variance": around_one[1]}
        inputs = [
            self._keep(f"{name}.{part}", np.abs(v) if part == "variance" else v) for part, v in statistics.items()
        ]
        return self._node("BatchNormalization", name, [source.name, *inputs], source.shape, epsilon=1e-3)

    # -- pools and layout ----------------------------------------------------------------------------------------------

    def max_pool(
        self, name: str, source: Value, kernel: int, *, stride: int, padding: str = "valid", is_ceil: bool = False
    ) -> Value:
        begins, ends = _pads(padding, source.shape[2:], (kernel, kernel), stride)
        size = []
        for length, begin, end in zip(source.shape[2:], begins, ends, strict=True):
            rest = length + begin + end - kernel
            size.append((-(-rest // stride) if is_ceil else rest // stride) + 1)
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [*begins, *ends]}
        return self._node(
            "MaxPool", name, [source.name], (1, source.channels, *size), **attributes, ceil_mode=int(is_ceil)
        )

    def average_pool(self, name: str, source: Value, kernel: tuple[int, int]) -> Value:
        """The average of windows that do not overlap."""
        size = [length // taps for length, taps in zip(source.shape[2:], kernel, strict=True)]
        shape = (1, source.channels, *size)
        return self._node("AveragePool", name, [source.name], shape, kernel_shape=[*kernel], strides=[*kernel])

    def global_average(self, name: str, source: Value) -> Value:
        return self._node("GlobalAveragePool", name, [source.name], (1, source.channels, 1, 1))

    def flatten(self, source: Value) -> Value:
        return self._node("Flatten", f"{source.name}.flat", [source.name], (1, int(np.prod(source.shape[1:]))))

    def reshape(self, name: str, source: Value, shape: tuple[int, ...]) -> Value:
        sizes = self._keep_integers(f"{name}.shape", shape)
        return self._node("Reshape", name, [source.name, sizes], shape)

    def transpose(self, name: str, source: Value, axes: tuple[int, ...]) -> Value:
        """Dimension i of the result is dimension axes[i] of the source."""
        shape = tuple(source.shape[axis] for axis in axes)
        return self._node("Transpose", name, [source.name], shape, perm=list(axes))

    def first(self, name: str, source: Value) -> Value:
        """The first token of [1, tokens, features]."""
        return self.slice(name, source, 0, 1, axis=1)

    def slice(self, name: str, source: Value, start: int, end: int, axis: int) -> Value:
        """Part of a dimension."""
        limits = (("start", start), ("end", end), ("axis", axis))
        ends = [self._keep_integers(f"{name}.{part}", (at,)) for part, at in limits]
        shape = tuple(end - start if d == axis else size for d, size in enumerate(source.shape))
        return self._node("Slice", name, [source.name, *ends], shape)

    def concat(self, name: str, *sources: Value, axis: int = 1) -> Value:
        """Channels, tokens or features, one after another."""
        total = sum(source.shape[axis] for source in sources)
        shape = tuple(total if d == axis else size for d, size in enumerate(sources[0].shape))
        return self._node("Concat", name, [source.name for source in sources], shape, axis=axis)

    def repeat_heads(self, name: str, source: Value, heads: int) -> Value:
        """Each of the heads in [1, heads, tokens, features] several times, one copy after the other."""
        _, given, tokens, width = source.shape
        if given == heads:
            return source
        axis = self._keep_integers("heads.axis", (2,))
        wide = self._node("Unsqueeze", f"{name}.wide", [source.name, axis], (1, given, 1, tokens, width))
        shape = (1, given, heads // given, tokens, width)
        sizes = self._keep_integers(f"{name}.copies.shape", shape)
        copies = self._node("Expand", f"{name}.copies", [wide.name, sizes], shape)
        return self.reshape(f"{name}.repeated", copies, (1, heads, tokens, width))

    def split(self, name: str, source: Value, count: int, axis: int = 1) -> list[Value]:
        """Equal pieces along an axis."""
        shape = tuple(size // count if d == axis else size for d, size in enumerate(source.shape))
        pieces = [Value(f"{name}.{index}", shape) for index in range(count)]
        self._nodes.append(helper.make_node("Split", [source.name], [p.name for p in pieces], name, axis=axis))
        return pieces

    def upsample(self, name: str, source: Value) -> Value:
        """Every pixel becomes 2×2 pixels."""
        scales = self._keep("upsample.scales", np.array([1, 1, 2, 2]))
        height, width = source.shape[2:]
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        shape = (1, source.channels, 2 * height, 2 * width)
        return self._node("Resize", name, [source.name, "", scales], shape, **attributes)

    def enlarge(self, name: str, source: Value, height: int, width: int) -> Value:
        """An image of this size, linear between the pixels, whose corners stay where they are."""
        shape = (1, source.channels, height, width)
        sizes = self._keep_integers(f"{name}.sizes", shape)
        attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
        return self._node("Resize", name, [source.name, "", "", sizes], shape, **attributes)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _unary(self, op_type: str, suffix: str, source: Value, **attributes: float) -> Value:
        return self._node(op_type, f"{source.name}.{suffix}", [source.name], source.shape, **attributes)

    def _node(self, op_type: str, name: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> Value:
        self._nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return Value(name, shape)

    def _normal(self, name: str, shape: tuple[int, ...], gain: float, fan_in: int) -> str:
        values = self._random(name).standard_normal(shape, np.float32)
        return self._keep(name, values * np.float32(np.sqrt(gain / fan_in)))

    def _bias(self, name: str, channels: int) -> str:
        return self._biases(f"{name}.bias", (channels,))

    def _biases(self, name: str, shape: tuple[int, ...]) -> str:
        values = self._random(name).standard_normal(shape, np.float32)
        return self._keep(name, values * np.float32(BIAS_DEVIATION))

    def _scale_and_bias(self, name: str, features: int) -> tuple[str, str]:
        random = self._random(name)
        scale = self._keep(f"{name}.scale", 1.0 + 0.1 * random.standard_normal(features))
        return scale, self._keep(f"{name}.bias", 0.1 * random.standard_normal(features))

    def _scalar(self, name: str, value: float) -> str:
        return self._keep(name, np.array(value))

    def _keep(self, name: str, values: NDArray[Any]) -> str:
        self._weights[name] = values.astype(np.float32)
        return name

    def _keep_integers(self, name: str, values: tuple[int, ...]) -> str:
        self._weights[name] = np.array(values, np.int64)
        return name

    def _random(self, name: str) -> np.random.Generator:
        return np.random.default_rng((self._seed, zlib.crc32(self.name.encode()), zlib.crc32(name.encode())))


def _pads(
    padding: str, size: tuple[int, ...], window: tuple[int, ...], stride: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros in front and behind, per axis. Example: `same`, 96 pixels, 3 taps, stride 2: 0 in front, 1 behind."""
    if padding == "valid":
        return (0,) * len(window), (0,) * len(window)
    if padding == "symmetric":
        half = tuple(taps // 2 for taps in window)
        return half, half
    assert padding == "same"
    totals = [
        max((-(-length // stride) - 1) * stride + taps - length, 0) for length, taps in zip(size, window, strict=True)
    ]
    return tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
