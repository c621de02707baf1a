"""A network whose busiest engine is the vector engine, with one and with two of them, beside its bound.

python -m tests.schedules.vectors    # the row of docs/engines.md

Three poolings of 5×5, one behind the other, and the sum of all four tensors, as where a detector pools at several sizes
at once: no product, so that an array has nothing to do. No schedule takes fewer cycles than one vector engine works,
divided by the number of engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder
from tilewright.api import compile  # noqa: A004
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

ONE, TWO = "base16", "base16-2vec"


@dataclass(frozen=True, slots=True)
class Measured:
    """Cycles of a run, and in how many of them vector engines worked, of all such engines together."""

    cycles: int
    vector: int


def main() -> None:
    one, two = measured(ONE), measured(TWO)
    bound = one.vector // len(load_machine(TWO).of(Template.VECTOR))
    print(f"| pools | {one.cycles:,} | {two.cycles:,} ({one.cycles / two.cycles:.2f}) | {bound:,} |")


def measured(machine: str) -> Measured:
    """The network on a shipped machine; no earlier search is taken over."""
    of = load_machine(machine)
    with TemporaryDirectory() as folder:
        programs = compile(pools(), of, tuning=Path(folder) / "tuning.json").programs
    runs = [simulate_cycles(program, place_regions(program.limits)) for program in programs]
    engines = [engine.name for engine in of.of(Template.VECTOR)]
    return Measured(sum(run.cycles for run in runs), sum(run.engines[name].busy for run in runs for name in engines))


def pools(channels: int = 64, size: int = 20) -> onnx.ModelProto:
    """A tensor of so many channels, and rows and columns."""
    build = ModelBuilder(np.random.default_rng(0))
    parts = [build.quantize(build.input("x", (1, channels, size, size)), 0.05, 0)]
    for _ in range(3):
        pooled = build.node("MaxPool", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
        parts.append(build.quantize(pooled, 0.05, 0))
    total = parts[0]
    for part in parts[1:]:
        total = build.quantize(build.node("Add", [total, part]), 0.1, 0)
    build.output(total)
    return build.build()


if __name__ == "__main__":
    main()
