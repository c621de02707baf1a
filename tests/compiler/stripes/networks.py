"""Chains of layers to cut into stripes: random ones, and the nests of a model right before the pass that cuts."""

from __future__ import annotations

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tilewright.compiler.fitting import cover
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.passes import STRIPES, PassContext
from tilewright.compiler.pipeline import PASSES, compile_covered
from tilewright.compiler.stripes.chain import Chain, is_chain
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program


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


def skipping_model() -> onnx.ModelProto:
    """Two blocks of a MobileNet; behind the second depthwise convolution, the first expansion is added."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 16, 12, 6]), 0.1, name="x.q")
    wide = add_conv(builder, x, 16, 48, 1, name="expand")
    deep = add_conv(builder, wide, 48, 48, 3, pads=[1] * 4, group=48, name="depthwise")
    narrow = add_conv(builder, deep, 48, 16, 1, name="project")
    again = add_conv(builder, narrow, 16, 48, 1, name="expand2")
    again = add_conv(builder, again, 48, 48, 3, pads=[1] * 4, group=48, name="depthwise2")
    both = builder.quantize(builder.node("Add", [wide, again], name="add"), 0.2, name="add.q")
    builder.output(add_conv(builder, both, 48, 16, 1, name="project2"))
    return rescaled(builder.build("skipping"))


def joined_model(height: int = 12, width: int = 12, channels: int = 96) -> onnx.ModelProto:
    """A block of a MobileNet that reads a Concat: of what is computed, and of an input, which stays where it is."""
    builder = ModelBuilder(np.random.default_rng(0))
    inputs = [builder.quantize(builder.input(name, [1, 16, height, width]), 0.1, 3, name=f"{name}.q") for name in "xy"]
    before = add_conv(builder, inputs[0], 16, channels, 1, name="before")
    weight, _ = builder.weights("narrow", [16, channels, 1, 1])
    narrow = builder.node("Conv", [before, weight], name="narrow", kernel_shape=[1, 1])
    parts = [builder.quantize(narrow, 0.1, 3, name="narrow.q"), inputs[1]]
    both = builder.quantize(builder.node("Concat", parts, name="concat", axis=2), 0.1, 3, name="both.q")
    wide = add_conv(builder, both, 16, channels, 1, name="expand")
    deep = add_conv(builder, wide, channels, channels, 3, pads=[1] * 4, group=channels, name="depthwise")
    builder.output(add_conv(builder, deep, channels, 16, 1, name="project"))
    return builder.build("joined")


def before_stripes(model: onnx.ModelProto, machine: Machine, joins_columns: bool = False) -> NestProgram:
    """The nests that the pass `stripes` gets."""
    value: Graph | NestProgram | bytes = model.SerializeToString()
    for step in PASSES.passes[: PASSES.position(STRIPES)]:
        value = step.run(value, PassContext(machine, Options(joins_columns=joins_columns)))
    assert isinstance(value, NestProgram)
    return value


def any_chains(program: NestProgram) -> list[Chain]:
    """Every chain of two nests or more in a program, also those that begin or end where many words are alive."""
    count = len(program.nests)
    spans = [range(start, stop) for start in range(count) for stop in range(start + 2, count + 1)]
    return [Chain(program.nests[span.start : span.stop], program) for span in spans if is_chain(program, span)]


def compiled_nests(program: NestProgram, machine: Machine) -> Program:
    """What the passes after `stripes` make of nests; raises CompileError where they do not fit."""
    options = Options(effort=0, verifies=True)
    covered = cover(PASSES, PASSES.position(STRIPES) + 1, program, PassContext(machine, options))
    assert covered is not None
    return compile_covered(covered, options)
