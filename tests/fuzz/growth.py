"""What it costs to compile networks of thousands of operators: `python -m tests.fuzz.growth 1000 3000 10000`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from time import process_time

import numpy as np
import onnx

import tilewright
from tests.compiler.models import ModelBuilder

SHAPE = [1, 16]
SCALES = (0.1, 0.11)


def additions(count: int) -> onnx.ModelProto:
    """x + x, that plus itself, and so on."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", SHAPE), SCALES[0])
    for step in range(count):
        x = builder.quantize(builder.node("Add", [x, x]), SCALES[step % 2])
    builder.output(x)
    return builder.build()


def requantisations(count: int) -> onnx.ModelProto:
    """A Relu after the other, each with another scale than the one before."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", SHAPE), SCALES[0])
    for step in range(count):
        x = builder.quantize(builder.node("Relu", [x]), SCALES[step % 2])
    builder.output(x)
    return builder.build()


def inputs_of_a_sum(count: int) -> onnx.ModelProto:
    """One Sum, which the host computes, and an addition for the machine."""
    builder = ModelBuilder(np.random.default_rng(0))
    inputs = [builder.quantize(builder.input(f"x{number}", SHAPE), SCALES[0]) for number in range(count)]
    total = builder.quantize(builder.node("Sum", inputs), SCALES[0])
    builder.output(builder.quantize(builder.node("Add", [total, total]), SCALES[0]))
    return builder.build()


NETWORKS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "additions in a row": additions,
    "requantisations in a row": requantisations,
    "inputs of one Sum": inputs_of_a_sum,
}


def main(counts: list[int]) -> None:
    """Print the processor's seconds of each network with so many operators or inputs, compiled for base16."""
    print(f"| network | {' | '.join(f'{count:,}' for count in counts)} |\n| --- |{' ---: |' * len(counts)}")
    for name, network in NETWORKS.items():
        cells = []
        for count in counts:
            model = network(count)
            started = process_time()
            tilewright.compile(model, "base16")
            cells.append(f"{process_time() - started:.1f} s")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]])
