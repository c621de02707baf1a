"""Seeded random networks: products, pools, sums, joins, cuts, resampling and functions in any order and dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder, add_conv, rescaled

STEPS = range(4, 10)
CHANNELS = (1, 3, 8, 16, 20, 32, 40)
LARGEST = 40_000
"""Elements of a tensor."""

SMALLEST_SCALE = 1e-6


@dataclass(frozen=True, slots=True)
class Known:
    """A dequantised tensor of the network."""

    name: str
    shape: tuple[int, int, int, int]


class RandomNetwork:
    """Grows a network step by step; every step reads tensors that are there already."""

    def __init__(self, seed: int, attempt: int, kinds: Kinds, has_softmax: bool) -> None:
        self.kinds = kinds
        self.has_softmax = has_softmax
        self.rng = np.random.default_rng([seed, attempt, 0xD1CE])
        activation = np.int8 if self.rng.random() < 0.7 else np.uint8
        self.builder = ModelBuilder(self.rng, activation=activation)
        batch = int(self.rng.choice([1, 1, 1, 2]))
        shape = (batch, int(self.rng.choice(CHANNELS)), int(self.rng.integers(3, 15)), int(self.rng.integers(3, 15)))
        self.known = [Known(self.builder.quantize(self.builder.input("x", shape), 0.1), shape)]
        self.count = 0

    def model(self) -> onnx.ModelProto:
        for _ in range(int(self.rng.choice(STEPS))):
            step = self.kinds[int(self.rng.integers(len(self.kinds)))]
            made = step(self)
            if made is not None:
                self.known.append(made)
        unread = [t for t in self.known[1:] if not any(t.name in node.input for node in self.builder.nodes)]
        for number, tensor in enumerate(unread or self.known[-1:]):
            self.builder.output(tensor.name, f"result{number}")
        return rescaled(self.builder.build("random"))

    # -- helpers -------------------------------------------------------------------------------------------------------

    def any(self) -> Known:
        """A tensor, the newest more often than others."""
        return self.known[-1] if self.rng.random() < 0.6 else self.known[int(self.rng.integers(len(self.known)))]

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def rounded(self, tensor: str, shape: tuple[int, ...]) -> Known | None:
        if len(shape) != 4 or min(shape) < 1 or np.prod(shape) > LARGEST:
            return None
        return Known(self.builder.quantize(tensor, 0.1), (shape[0], shape[1], shape[2], shape[3]))

    def node(self, op_type: str, *inputs: str, **attributes: object) -> str:
        return self.builder.node(op_type, inputs, name=self.name(op_type.lower()), **attributes)

    def constant(self, values: object) -> str:
        return self.builder.constant(self.name("c"), np.array(values))


Kinds = tuple[Callable[[RandomNetwork], Known | None], ...]


def conv(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    kernel = [int(net.rng.integers(1, min(size, 4) + 1)) for size in (h, w)]
    stride = [int(net.rng.integers(1, 3)) for _ in range(2)]
    pads = [int(net.rng.integers(0, k)) for k in (*kernel, *kernel)]
    groups = [1] if c == 1 else [1, 1, c]
    group = int(net.rng.choice(groups))
    outputs = c if group > 1 else int(net.rng.choice(CHANNELS))
    shape = tuple((size + pads[i] + pads[i + 2] - kernel[i]) // stride[i] + 1 for i, size in enumerate((h, w)))
    if np.prod(shape) * outputs * n > LARGEST:
        return None
    relu = bool(net.rng.random() < 0.5)
    made = add_conv(
        net.builder, x.name, c, outputs, kernel, stride=stride, pads=pads, group=group, relu=relu, name=net.name("conv")
    )
    return Known(made, (n, outputs, shape[0], shape[1]))


def binary(net: RandomNetwork) -> Known | None:
    a = net.any()
    others = [t for t in net.known if t.shape == a.shape and t.name != a.name]
    if not others:
        return None
    b = others[int(net.rng.integers(len(others)))]
    return net.rounded(net.node(str(net.rng.choice(["Add", "Mul", "Sub", "Max"])), a.name, b.name), a.shape)


def by_channel(net: RandomNetwork) -> Known | None:
    """Squeeze and excite: the mean of each channel, through a function, times the channel."""
    x = net.any()
    n, c, _, _ = x.shape
    mean = net.rounded(net.node("GlobalAveragePool", x.name), (n, c, 1, 1))
    assert mean is not None
    gate = net.rounded(net.node("Sigmoid", mean.name), mean.shape)
    assert gate is not None
    return net.rounded(net.node("Mul", x.name, gate.name), x.shape)


def function(net: RandomNetwork) -> Known | None:
    x = net.any()
    kind = str(net.rng.choice(["Sigmoid", "HardSwish", "LeakyRelu", "Tanh", "Elu"]))
    return net.rounded(net.node(kind, x.name), x.shape)


def pool(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    kernel = [int(net.rng.integers(1, min(size, 3) + 1)) for size in (h, w)]
    stride = int(net.rng.integers(1, 3))
    kind = str(net.rng.choice(["MaxPool", "AveragePool"]))
    made = net.node(kind, x.name, kernel_shape=kernel, strides=[stride, stride])
    return net.rounded(made, (n, c, (h - kernel[0]) // stride + 1, (w - kernel[1]) // stride + 1))


def concat(net: RandomNetwork) -> Known | None:
    x = net.any()
    axis = int(net.rng.choice([1, 1, 1, 2, 3]))
    others = [t for t in net.known if all(t.shape[d] == x.shape[d] for d in range(4) if d != axis)]
    picked = [x, *(others[int(net.rng.integers(len(others)))] for _ in range(int(net.rng.integers(1, 3))))]
    shape = list(x.shape)
    shape[axis] = sum(t.shape[axis] for t in picked)
    return net.rounded(net.node("Concat", *(t.name for t in picked), axis=axis), tuple(shape))


def cut(net: RandomNetwork) -> Known | None:
    x = net.any()
    axis = int(net.rng.integers(1, 4))
    size = x.shape[axis]
    start = int(net.rng.integers(0, size))
    stop = int(net.rng.integers(start + 1, size + 1))
    step = int(net.rng.choice([1, 1, 2]))
    made = net.node("Slice", x.name, *(net.constant(np.array([v], np.int64)) for v in (start, stop, axis, step)))
    shape = list(x.shape)
    shape[axis] = len(range(start, stop, step))
    return net.rounded(made, tuple(shape))


def enlarge(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    scales = [int(net.rng.integers(1, 3)) for _ in range(2)]
    factors = net.constant(np.array([1, 1, *scales], np.float32))
    made = net.node("Resize", x.name, "", factors, mode="nearest", coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor")  # fmt: skip
    return net.rounded(made, (n, c, h * scales[0], w * scales[1]))


def pad(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    pads = [int(v) for v in net.rng.integers(0, 3, 4)]
    amounts = net.constant(np.array([0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]], np.int64))
    made = net.node("Pad", x.name, amounts)
    return net.rounded(made, (n, c, h + pads[0] + pads[2], w + pads[1] + pads[3]))


def blocks(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    if h % 2 or w % 2:
        return None
    return net.rounded(net.node("SpaceToDepth", x.name, blocksize=2), (n, 4 * c, h // 2, w // 2))


def shuffle(net: RandomNetwork) -> Known | None:
    x = net.any()
    n, c, h, w = x.shape
    if c % 4:
        return None
    split = net.node("Reshape", x.name, net.constant(np.array([n, 4, c // 4, h, w], np.int64)))
    turned = net.node("Transpose", split, perm=[0, 2, 1, 3, 4])
    return net.rounded(net.node("Reshape", turned, net.constant(np.array(x.shape, np.int64))), x.shape)


def turn(net: RandomNetwork) -> Known | None:
    """Any exchange of dimensions."""
    x = net.any()
    axes = [int(axis) for axis in net.rng.permutation(4)]
    return net.rounded(net.node("Transpose", x.name, perm=axes), tuple(x.shape[axis] for axis in axes))


def reshaped(net: RandomNetwork) -> Known | None:
    """The same elements in other dimensions; rows and columns in any, channels as wholes."""
    x = net.any()
    n, c, h, w = x.shape
    shapes = [(n, c, w, h), (n, c, 1, h * w), (n, 1, c * h, w), (n, c * h, w, 1), (1, n * c, h, w), (n, c, h * w, 1)]
    shape = shapes[int(net.rng.integers(len(shapes)))]
    return net.rounded(net.node("Reshape", x.name, net.constant(np.array(shape, np.int64))), shape)


def attend(net: RandomNetwork) -> Known | None:
    """Attention over positions: each head's products of queries and keys, a function of them, and the values."""
    queries = net.any()
    n, c, h, w = queries.shape
    others = [t for t in net.known if t.shape == queries.shape]
    keys, values = (others[int(net.rng.integers(len(others)))] for _ in range(2))
    heads = int(net.rng.choice([heads for heads in (1, 2, 4) if c % heads == 0]))
    split = net.constant(np.array([n, heads, c // heads, h * w], np.int64))
    q, k, v = (net.node("Reshape", t.name, split) for t in (queries, keys, values))
    by_position = (n, heads, h * w, h * w)
    scores = net.rounded(net.node("MatMul", net.node("Transpose", q, perm=[0, 1, 3, 2]), k), by_position)
    if scores is None:
        return None
    function = net.node("Softmax", scores.name, axis=3) if net.has_softmax else net.node("Sigmoid", scores.name)
    weights = net.rounded(function, by_position)
    assert weights is not None
    mixed = net.node("MatMul", v, net.node("Transpose", weights.name, perm=[0, 1, 3, 2]))
    rounded = net.rounded(mixed, (n, heads, c // heads, h * w))
    assert rounded is not None
    whole = net.constant(np.array(queries.shape, np.int64))
    return net.rounded(net.node("Reshape", rounded.name, whole), queries.shape)


STEP_KINDS: Kinds = (
    conv, conv, conv, binary, binary, by_channel, function, pool, concat, concat, cut, enlarge, pad, blocks, shuffle,
)  # fmt: skip


TRANSPOSING_KINDS = (*STEP_KINDS, turn, reshaped, attend, attend, attend)
"""For machines whose array reads tiles of tensors, straight and transposed."""


def random_network(
    seed: int, *, transposes: bool = False, has_softmax: bool = False, beside: Kinds = ()
) -> onnx.ModelProto:
    """The network of a seed; one with a tensor that is zero for all inputs, as x - x, is drawn again.

    `beside` are kinds of steps that it has more of.
    """
    kinds = (*(TRANSPOSING_KINDS if transposes else STEP_KINDS), *beside)
    for attempt in range(100):
        model = RandomNetwork(seed, attempt, kinds, has_softmax).model()
        if min(_scales(model)) > SMALLEST_SCALE:
            return model
    raise AssertionError(f"seed {seed}: no network")


def _scales(model: onnx.ModelProto) -> list[float]:
    scales = [tensor for tensor in model.graph.initializer if tensor.name.endswith(".scale") and not tensor.dims]
    return [float(onnx.numpy_helper.to_array(tensor)) for tensor in scales]
