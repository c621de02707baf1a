"""Small networks as converters write them: a MobileNet and a ResNet, with random weights and scales that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.compiler.importers.tflite.files import Tensor, TfliteFile

RELU, RELU6 = 1, 3
SAME, VALID = 0, 1


class NetworkBuilder:
    """Adds layers to a file. Activations spread over about ±3 real units, so that one scale does for all."""

    SCALE = 6 / 255

    def __init__(self, shape: Sequence[int], seed: int, dtype: Any = np.int8) -> None:
        self.rng: Generator = np.random.default_rng(seed)
        self.file = TfliteFile()
        self.dtype = np.dtype(dtype)
        self.middle = 0 if self.dtype == np.int8 else 128
        self.x = self.file.input("serving_default_input:0", shape, 2 / 255, self.middle - 1, dtype)

    def result(self, kind: str, shape: Sequence[int], like: Tensor | None = None, is_positive: bool = False) -> Tensor:
        """A new tensor, with the scale of another if `like` is given."""
        name = f"{kind.lower()}_{len(self.file.tensors)}"
        if like is not None:
            return self.file.tensor(name, shape, like.scales[0], like.zeros[0], self.dtype)
        zero = self.middle - 128 if is_positive else self.middle + 3
        return self.file.tensor(name, shape, self.SCALE, zero, self.dtype)

    def parameters(self, x: Tensor, shape: Sequence[int], axis: int, fan_in: int) -> list[Tensor]:
        """Weights, each channel with its own scale (or uint8 ones with one zero point), and a bias."""
        spread = 2.4 / np.sqrt(fan_in)
        name = f"weights_{len(self.file.tensors)}"
        if self.dtype == np.uint8:
            values = self.rng.integers(0, 256, shape).astype(np.uint8)
            w = self.file.constant(name, values, [spread / 128], [125])
        else:
            values = self.rng.integers(-127, 128, shape).astype(np.int8)
            w = self.file.constant(name, values, self.rng.uniform(0.5, 1.5, shape[axis]) * spread / 127, axis=axis)
        scales = [float(np.float32(x.scales[0]) * np.float32(scale)) for scale in w.scales]
        reals = self.rng.uniform(-0.5, 0.5, shape[axis])
        b = self.file.constant(f"bias_{len(self.file.tensors)}", np.rint(reals / scales).astype(np.int32), scales)
        return [w, b]

    def conv(self, x: Tensor, channels: int, kernel: int = 3, stride: int = 1, activation: int = 0) -> Tensor:
        n, h, w, c = x.shape
        y = self.result("conv", (n, -(-h // stride), -(-w // stride), channels), is_positive=activation > 0)
        parameters = self.parameters(x, (channels, kernel, kernel, c), 0, c * kernel * kernel)
        self.file.operator(
            "CONV_2D", [x, *parameters], y, "Conv2DOptions", Padding=SAME, StrideH=stride, StrideW=stride,
            FusedActivationFunction=activation,
        )  # fmt: skip
        return y

    def depthwise(self, x: Tensor, stride: int = 1) -> Tensor:
        n, h, w, c = x.shape
        y = self.result("depthwise", (n, -(-h // stride), -(-w // stride), c), is_positive=True)
        self.file.operator(
            "DEPTHWISE_CONV_2D", [x, *self.parameters(x, (1, 3, 3, c), 3, 9)], y, "DepthwiseConv2DOptions",
            Padding=SAME, StrideH=stride, StrideW=stride, DepthMultiplier=1, FusedActivationFunction=RELU6,
        )  # fmt: skip
        return y

    def add(self, a: Tensor, b: Tensor, activation: int = 0) -> Tensor:
        y = self.result("add", a.shape, is_positive=activation > 0)
        self.file.operator("ADD", [a, b], y, "AddOptions", FusedActivationFunction=activation)
        return y

    def pool(self, x: Tensor, kind: str, size: int, padding: int = VALID, stride: int = 0) -> Tensor:
        n, h, w, c = x.shape
        stride = stride or size
        counts = [-(-d // stride) if padding == SAME else (d - size) // stride + 1 for d in (h, w)]
        y = self.result("pool", (n, *counts, c), like=x)
        self.file.operator(
            kind, [x], y, "Pool2DOptions", Padding=padding, StrideH=stride, StrideW=stride, FilterHeight=size,
            FilterWidth=size,
        )  # fmt: skip
        return y

    def mean(self, x: Tensor) -> Tensor:
        axes = self.file.constant(f"axes_{len(self.file.tensors)}", np.array([1, 2], np.int32))
        y = self.result("mean", (x.shape[0], x.shape[3]), like=x)
        self.file.operator("MEAN", [x, axes], y, "ReducerOptions")
        return y

    def flatten(self, x: Tensor) -> Tensor:
        """As converters write it: the batch comes out of the shape of `x`, the rest is -1."""
        integers = [self.file.constant(f"i{i}_{x.name}", np.array(i, np.int32)) for i in (0, 1, -1)]
        lists = [self.file.constant(f"l{i}_{x.name}", np.array([i], np.int32)) for i in (0, 1, 1)]
        shape = self.file.tensor(f"shape_{x.name}", (len(x.shape),), None, dtype=np.int32)
        batch = self.file.tensor(f"batch_{x.name}", (), None, dtype=np.int32)
        wanted = self.file.tensor(f"wanted_{x.name}", (2,), None, dtype=np.int32)
        y = self.result("flatten", (x.shape[0], int(np.prod(x.shape[1:]))), like=x)
        self.file.operator("SHAPE", [x], shape, "ShapeOptions", OutType=2)
        self.file.operator("STRIDED_SLICE", [shape, *lists], batch, "StridedSliceOptions", ShrinkAxisMask=1)
        self.file.operator("PACK", [batch, integers[2]], wanted, "PackOptions", ValuesCount=2)
        self.file.operator("RESHAPE", [x, wanted], y, "ReshapeOptions")
        return y

    def dense(self, x: Tensor, outputs: int) -> Tensor:
        y = self.result("dense", (x.shape[0], outputs))
        parameters = self.parameters(x, (outputs, x.shape[1]), 0, x.shape[1])
        self.file.operator("FULLY_CONNECTED", [x, *parameters], y, "FullyConnectedOptions")
        return y


def mobilenet(dtype: Any = np.int8) -> tuple[TfliteFile, Tensor]:
    """Inverted residuals, as in MobileNetV2: expand, depthwise, project, add."""
    net = NetworkBuilder((1, 24, 24, 3), 1, dtype)
    x = net.conv(net.x, 16, stride=2, activation=RELU6)
    for channels, stride in ((16, 1), (24, 2), (24, 1)):
        expanded = net.conv(x, 3 * channels, kernel=1, activation=RELU6)
        projected = net.conv(net.depthwise(expanded, stride), channels, kernel=1)
        x = net.add(x, projected) if x.shape == projected.shape else projected
    x = net.mean(net.conv(x, 48, kernel=1, activation=RELU6))
    return net.file, net.dense(x, 10)


def resnet() -> tuple[TfliteFile, Tensor]:
    """Two residual blocks, the second with a projection, and an image flattened channels last."""
    net = NetworkBuilder((1, 16, 16, 3), 2)
    x = net.pool(net.conv(net.x, 16, activation=RELU), "MAX_POOL_2D", 3, SAME, stride=2)
    x = net.add(net.conv(net.conv(x, 16, activation=RELU), 16), x, activation=RELU)
    short = net.conv(x, 32, kernel=1, stride=2)
    x = net.add(net.conv(net.conv(x, 32, stride=2, activation=RELU), 32), short, activation=RELU)
    return net.file, net.dense(net.flatten(net.pool(x, "AVERAGE_POOL_2D", 2)), 10)
