"""Convolutions that meet in one Add, Max or window, and a machine whose instructions take these from accumulators.

python -m tests.accumulator_networks                          # what each network takes with and without them

`without`: on the same machine, whose compiler may not use them. So its pipeline is as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from tests.compiler.machines import without
from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

FROM_ACCUMULATORS = """
extends: base16
instructions:
  requantize_add_two:
    about: Two accumulators, each requantised with its own parameters, and their sum.
    engine: vec
    loops: {i: 10, j: 10, k: 10}
    from: {a: acc, p: par, b: acc, q: par}
    to: {y: act}
    imm: {a_zero: int8, a_scale: uint16, b_zero: int8, b_scale: uint16, shift: uint6, zero: int8, low: int8, high: int8}
    do: >-
      y = clamp(round_shift((sat(round_shift((a + p.bias) * p.scale, p.shift) + a_zero, int8) - a_zero) * a_scale
      + (sat(round_shift((b + q.bias) * q.scale, q.shift) + b_zero, int8) - b_zero) * b_scale, shift) + zero, low, high)
  requantize_max:
    about: The larger of an accumulator, requantised, and an activation.
    engine: vec
    loops: {i: 10, j: 10, k: 10}
    from: {a: acc, p: par, b: act}
    to: {y: act}
    imm: {zero: int8, low: int8, high: int8}
    do: y = max(clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high), b)
  requantize_pool:
    about: The largest of a window of accumulators, each requantised.
    engine: vec
    loops: {c: 8, y: 10, x: 10, r: 4, s: 4}
    reduce: [r, s]
    from: {a: acc, p: "par[c]"}
    to: {y: "act[c, y, x]"}
    imm: {zero: int8, low: int8, high: int8}
    do: y = max_over(clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high))
"""
"""base16, with three instructions that requantise what they read."""

FUSED = ("requantize_add_two", "requantize_max", "requantize_pool")

PADDED = (1, 1, 1, 1)


def from_accumulators() -> Machine:
    """The machine with all three instructions."""
    return load_machine_text(FROM_ACCUMULATORS, "from_accumulators")


def projection(size: int = 8, channels: int = 16, wide: int = 32, relu: bool = True) -> onnx.ModelProto:
    """conv(relu(conv(x))) + conv(x), the block of a residual network that halves the plane and widens it."""
    builder = ModelBuilder(np.random.default_rng(5))
    x = builder.quantize(builder.input("x", [1, channels, size, size]), 0.1, 3, name="x.q")
    y = add_conv(builder, x, channels, wide, 3, stride=2, pads=PADDED, relu=True, name="first")
    y = add_conv(builder, y, wide, wide, 3, pads=PADDED, name="second")
    shortcut = add_conv(builder, x, channels, wide, 1, stride=2, name="shortcut")
    total = builder.node("Add", [y, shortcut], name="add")
    if relu:
        total = builder.node("Relu", [total], name="relu")
    builder.output(builder.quantize(total, 900.0, -20, name="sum.q"))
    return rescaled(builder.build("projection"))


def shallow(size: int = 16, channels: int = 16, wide: int = 64) -> onnx.ModelProto:
    """conv(x) + conv(z), both 1×1 of few channels: as many cycles of the vector engine as of the array, or more."""
    builder = ModelBuilder(np.random.default_rng(8))
    terms = []
    for name in ("x", "z"):
        tensor = builder.quantize(builder.input(name, [1, channels, size, size]), 0.1, 3, name=f"{name}.q")
        terms.append(add_conv(builder, tensor, channels, wide, 1, name=f"of_{name}"))
    builder.output(builder.quantize(builder.node("Add", terms, name="add"), 900.0, -20, name="sum.q"))
    return rescaled(builder.build("shallow"))


def larger_of_two(size: int = 8, channels: int = 16) -> onnx.ModelProto:
    """max(conv(x), x), both of one scale."""
    builder = ModelBuilder(np.random.default_rng(6))
    x = builder.quantize(builder.input("x", [1, channels, size, size]), 0.1, 3, name="x.q")
    weight, _ = builder.weights("conv", [channels, channels, 3, 3])
    y = builder.node("Conv", [x, weight], name="conv", kernel_shape=[3, 3], pads=PADDED)
    y = builder.quantize(y, 0.1, 3, name="conv.q")
    builder.output(builder.quantize(builder.node("Max", [y, x], name="max"), 0.1, 3, name="max.q"))
    return builder.build("larger_of_two")


def pooled(
    size: int = 8,
    channels: int = 16,
    wide: int = 32,
    kernel: int = 2,
    stride: int = 2,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    readers: int = 1,
) -> onnx.ModelProto:
    """max_pool(relu(conv(x))); the second of several readers has windows of twice the size, and so on."""
    builder = ModelBuilder(np.random.default_rng(7))
    x = builder.quantize(builder.input("x", [1, channels, size, size]), 0.1, 3, name="x.q")
    weight, weight_scale = builder.weights("conv", [wide, channels, 3, 3])
    bias = builder.bias("conv", wide, 0.1 * weight_scale)
    y = builder.node("Conv", [x, weight, bias], name="conv", kernel_shape=[3, 3], pads=PADDED)
    y = builder.quantize(builder.node("Relu", [y], name="relu"), 5.0, -128, name="conv.q")
    for reader in range(1, readers + 1):
        number = "" if reader == 1 else str(reader)
        window = {"kernel_shape": [reader * kernel] * 2, "strides": [reader * stride] * 2, "pads": pads}
        largest = builder.node("MaxPool", [y], name=f"pool{number}", **window)
        builder.output(builder.quantize(largest, 5.0, -128, name=f"pool{number}.q"), f"result{number}")
    return rescaled(builder.build("pooled"))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "projection": projection,
    "shallow": shallow,
    "larger_of_two": larger_of_two,
    "pooled": pooled,
}


def cycles(model: onnx.ModelProto, machine: Machine) -> int:
    """The exact cycles of a network."""
    program = compile_model(model, machine)
    return simulate_cycles(program, place_regions(program.limits)).cycles


def main() -> None:
    """Print the cycles of each network: with the instructions, without, and on base16."""
    machine = from_accumulators()
    print(f"{'network':14} {'base16':>7} {'without':>8} {'with':>6}")
    for name, network in NETWORKS.items():
        found = [cycles(network(), on) for on in (load_machine("base16"), without(machine, *FUSED), machine)]
        print(f"{name:14} {found[0]:7,} {found[1]:8,} {found[2]:6,}")


if __name__ == "__main__":
    main()
