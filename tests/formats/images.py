"""A convolution of an image, in every form in which the image may arrive: type, layout, order of the first steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import TensorProto, helper

from tests.compiler.models import ModelBuilder

ELEMENTS = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}

SCALE = 0.0078125


@dataclass(frozen=True)
class Image:
    """The input: its element type, its channels, and the steps between it and the first convolution.

    Each letter of `steps` is one: `T` transposes [N, H, W, C] to [N, C, H, W], `F` gives pixels in one row their shape,
    `R` shows an image of one channel as [N, 1, H, W]; `Q` quantises, `D` dequantises, `C` casts to float, `S` subtracts
    0.25.
    """

    steps: str
    dtype: str
    channels: int = 3
    size: int = 12

    @property
    def shape(self) -> list[int]:
        """The shape of the input: pixels in one row, [N, H, W, C], or [N, C, H, W], as the steps take it."""
        if "F" in self.steps:
            return [1, self.size * self.size * self.channels]
        return self.last if self.is_last else self.first

    @property
    def is_last(self) -> bool:
        return "T" in self.steps or "R" in self.steps

    @property
    def first(self) -> list[int]:
        return [1, self.channels, self.size, self.size]

    @property
    def last(self) -> list[int]:
        return [1, self.size, self.size, self.channels]

    def model(self) -> onnx.ModelProto:
        """A 3×3 convolution of stride 2 on the image."""
        integers: DTypeLike = np.int8 if self.dtype == "int8" else np.uint8
        builder = ModelBuilder(np.random.default_rng(1))
        x = builder.input("x", self.shape, ELEMENTS[self.dtype])
        scale = builder.constant("scale", np.float32(SCALE))
        zero = builder.constant("zero", np.array(3 if integers == np.int8 else 131, integers))
        for position, step in enumerate(self.steps):
            name = f"{step}{position}"
            match step:
                case "T":
                    x = builder.node("Transpose", [x], name=name, perm=[0, 3, 1, 2])
                case "F" | "R":
                    shape = self.last if step == "F" and self.is_last else self.first
                    x = builder.node("Reshape", [x, builder.constant(f"{name}.shape", np.array(shape))], name=name)
                case "Q":
                    x = builder.node("QuantizeLinear", [x, scale, zero], name=name)
                case "D":
                    x = builder.node("DequantizeLinear", [x, scale, zero], name=name)
                case "C":
                    x = builder.node("Cast", [x], name=name, to=TensorProto.FLOAT)
                case "S":
                    x = builder.node("Sub", [x, builder.constant(f"{name}.by", np.float32(0.25))], name=name)
        weight, _ = builder.weights("conv", [8, self.channels, 3, 3])
        x = builder.node("Conv", [x, weight], name="conv", strides=[2, 2], pads=[1, 1, 1, 1])
        builder.output(builder.quantize(x, 0.03, 5))
        return helper.make_model(
            helper.make_graph(builder.nodes, "image", builder.inputs, builder.outputs, builder.initializers),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        )
