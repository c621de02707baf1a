"""Chains of layers to cut into stripes: random ones, and the nests of a model right before the pass that cuts."""

from __future__ import annotations

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tilewright.compiler.errors import RAISING
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.passes import STRIPES
from tilewright.compiler.pipeline import PASSES
from tilewright.isa.machine.machine import Machine


def block_model(
    height: int = 13, width: int = 6, channels: int = 48, kernel: int = 3, stride: int = 1, dilation: int = 1,
    is_residual: bool = False, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """A convolution, then a block of a MobileNet: expansion, depthwise convolution, projection, and the sum of both."""
    builder = ModelBuilder(np.random.default_rng(seed))
    x = builder.quantize(builder.input("x", [1, 16, height, width]), 0.1, name="x.q")
    first = add_conv(builder, x, 16, 16, 1, name="first")
    wide = add_conv(builder, first, 16, channels, 1, name="expand")
    pads = [dilation * (kernel // 2)] * 4
    settings = {"stride": stride, "pads": pads, "dilations": (dilation, dilation), "group": channels}
    deep = add_conv(builder, wide, channels, channels, kernel, name="depthwise", **settings)
    last = add_conv(builder, deep, channels, 16, 1, name="project")
    if is_residual and stride == 1:
        last = builder.quantize(builder.node("Add", [first, last], name="add"), 0.2, name="add.q")
    builder.output(last)
    return rescaled(builder.build("block"))


def before_stripes(model: onnx.ModelProto, machine: Machine) -> NestProgram:
    """The nests that the pass `stripes` gets."""
    value: Graph | NestProgram | bytes = model.SerializeToString()
    for step in PASSES.passes[: PASSES.position(STRIPES)]:
        value = step.run(value, machine, Options(joins_columns=False), RAISING)
    assert isinstance(value, NestProgram)
    return value
