"""Random networks of which a machine can do some nodes and not others.

All scales are powers of two, so that a machine's requantisation is exact and every output must be equal in every bit.
The nodes for the host are CumSum, which needs its neighbours' sums, and what works on floats that nobody quantised.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.random import Generator

from tests.compiler.models import ModelBuilder

CHANNELS, SIZE = 5, 4
SCALE = 2.0**-4


def mixed_network(rng: Generator, count: int = 8) -> onnx.ModelProto:
    """A graph of so many random steps over [1, CHANNELS, SIZE, SIZE], each on any tensors before it."""
    builder = ModelBuilder(rng, activation=np.int8 if rng.integers(2) else np.uint8)
    least = int(np.iinfo(builder.activation.name).min)
    builder.constant("axis", np.array(1, np.int64))
    first = builder.input("x", [1, CHANNELS, SIZE, SIZE])
    quantised = [builder.quantize(first, SCALE, name="x.q")]
    floats = [first]
    for step in range(count):
        kind = rng.choice(["conv", "add", "pool", "cumsum", "float", "quantize", "relu"])
        q, f = _any(rng, quantised), _any(rng, floats)
        match kind:
            case "conv":
                quantised.append(_conv(builder, q, f"conv{step}"))
            case "add":
                both = builder.node("Add", [q, _any(rng, quantised)], name=f"add{step}")
                quantised.append(builder.quantize(both, 2 * SCALE, name=f"add{step}.q"))
            case "pool":
                pooled = builder.node("MaxPool", [q], name=f"pool{step}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
                quantised.append(pooled)
            case "cumsum":
                summed = builder.node("CumSum", [q, "axis"], name=f"cumsum{step}")
                floats.append(summed)
                quantised.append(builder.quantize(summed, SCALE, name=f"cumsum{step}.q"))
            case "float":
                floats.append(builder.node("Abs", [f], name=f"abs{step}"))
            case "quantize":
                quantised.append(builder.quantize(f, SCALE, name=f"q{step}"))
            case "relu":
                positive = builder.node("Relu", [q], name=f"relu{step}")
                quantised.append(builder.quantize(positive, SCALE, least, name=f"relu{step}.q"))
    _outputs(builder, quantised, floats)
    return builder.build("mixed")


def sandwich() -> onnx.ModelProto:
    """conv → CumSum → conv over [1, CHANNELS, SIZE, SIZE]: machine, host, machine."""
    builder = ModelBuilder(np.random.default_rng(0))
    builder.constant("axis", np.array(1, np.int64))
    x = builder.quantize(builder.input("x", [1, CHANNELS, SIZE, SIZE]), SCALE, name="x.q")
    x = builder.node("CumSum", [_conv(builder, x, "conv1"), "axis"], name="cumsum")
    builder.output(_conv(builder, builder.quantize(x, SCALE, name="cumsum.q"), "conv2"), "y")
    return builder.build("sandwich")


def alternating(count: int) -> onnx.ModelProto:
    """So many times conv → CumSum, then conv: 2·count + 1 parts, in turn of the machine and of the host."""
    builder = ModelBuilder(np.random.default_rng(0))
    builder.constant("axis", np.array(1, np.int64))
    x = builder.quantize(builder.input("x", [1, CHANNELS, SIZE, SIZE]), SCALE, name="x.q")
    for step in range(count):
        x = builder.node("CumSum", [_conv(builder, x, f"conv{step}"), "axis"], name=f"cumsum{step}")
        x = builder.quantize(x, SCALE, name=f"cumsum{step}.q")
    builder.output(_conv(builder, x, "last"), "y")
    return builder.build("alternating")


def _any(rng: Generator, tensors: list[str]) -> str:
    """A tensor, more likely one of the last."""
    return tensors[max(0, len(tensors) - 1 - int(rng.geometric(0.6)) + 1)]


def _conv(builder: ModelBuilder, x: str, name: str) -> str:
    weights = builder.rng.integers(-20, 21, size=(CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
    inputs = [
        builder.constant(f"{name}.weight", weights),
        builder.constant(f"{name}.weight_scale", np.float32(2.0**-6)),
        builder.constant(f"{name}.weight_zero", np.int8(0)),
    ]
    weight = builder.node("DequantizeLinear", inputs, name=f"{name}.weight_dq")
    y = builder.node("Conv", [x, weight], name=name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return builder.quantize(y, SCALE, name=f"{name}.q")


def _outputs(builder: ModelBuilder, quantised: list[str], floats: list[str]) -> None:
    """Every tensor that nothing reads, and two of those in between."""
    read = {name for node in builder.nodes for name in node.input}
    made = [output for node in builder.nodes for output in node.output]
    between = [name for name in dict.fromkeys((*quantised, *floats)) if name in made and name in read]
    chosen = builder.rng.permutation(between)[:2].tolist()
    for number, tensor in enumerate([name for name in made if name not in read] + chosen):
        builder.output(tensor, f"out{number}")
