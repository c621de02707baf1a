"""AveragePool where the mean is exactly between two steps: how often ONNX Runtime rounds it to the other one.

python -m tests.average_ties                # a table, one line for each window

ONNX Runtime adds float32 numbers, each a step times an integer and rounded, and divides. An exact tie may so come out
a little above or below. The machine adds the integers, so that a tie is one. If the window has 2, 4, 8, … values, it
rounds it to the even step; else the multiplier that stands for 1 / 36, say, decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx

import tilewright
from tests.compiler.models import ModelBuilder, run_onnx

CHANNELS, SIZE = 16, 24
WINDOWS = ((2, 2), (2, 4), (4, 4), (3, 3), (6, 6))
SCALES = (1 / 16, 0.1, 0.0123, 0.37)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the values of some pools: how many are exact ties, how many differ, and how many of those are no ties."""

    values: int
    ties: int
    differ: int
    differ_beside: int
    furthest: int


def pool(window: tuple[int, int], scale: float) -> onnx.ModelProto:
    """An AveragePool whose result has the steps of its operand."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (1, CHANNELS, SIZE, SIZE)), scale, 0, name="x.q")
    y = builder.node("AveragePool", [x], kernel_shape=list(window), strides=list(window), name="pool")
    builder.output(builder.quantize(y, scale, 0, name="y.q"))
    return builder.build("pool")


def count(window: tuple[int, int], scale: float, isa: str = "base16", seed: int = 0) -> Counts:
    """On random integers; the exact means are computed in integers."""
    model, (rows, columns) = pool(window, scale), window
    given = np.random.default_rng(seed).integers(-128, 128, (1, CHANNELS, SIZE, SIZE))
    feed = {"x": (given * np.float32(scale)).astype(np.float32)}
    program = tilewright.compile(model, isa, effort=0)
    found, expected = (
        np.rint(each / np.float32(scale)).astype(np.int64)
        for each in (program.run(feed).outputs["result"], run_onnx(model, feed)["result"])
    )
    parts = given.reshape(1, CHANNELS, SIZE // rows, rows, SIZE // columns, columns)
    is_tie = (2 * parts.sum(axis=(3, 5))) % (2 * rows * columns) == rows * columns
    distance = np.abs(found - expected)
    beside = int(((distance > 0) & ~is_tie).sum())
    return Counts(distance.size, int(is_tie.sum()), int((distance > 0).sum()), beside, int(distance.max()))


def counts() -> Iterator[tuple[tuple[int, int], float, Counts]]:
    for window, scale in product(WINDOWS, SCALES):
        yield window, scale, count(window, scale)


def main() -> None:
    print("| window | step | values | exact ties | differ | of them no ties | furthest (steps) |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (rows, columns), scale, of in counts():
        numbers = f"{of.values:,} | {of.ties:,} | {of.differ:,} | {of.differ_beside} | {of.furthest}"
        print(f"| {rows} × {columns} | {scale:g} | {numbers} |")


if __name__ == "__main__":
    main()
