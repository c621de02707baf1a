"""Print what asymmetric uint8 weights cost: `python -m tests.asymmetric`; docs/depthwise.md shows it.

Each row is one convolution of a 32×32 image with uint8 weights, once with zero point 128, so that they fit int8, and
once with another one. *Any value*: all 256 are as likely. *Bell*: a normal distribution, with the scale and zero point
that its least and greatest value ask for, as quantisers write it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import ModelBuilder
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

CENTRE, OFF_CENTRE = 128, 100


@dataclass(frozen=True)
class Form:
    """A convolution, its input from the model's input or, if `is_inner`, from another operator."""

    machine: str
    inputs: int
    outputs: int
    kernel: int
    is_depthwise: bool = False
    is_inner: bool = True

    def __str__(self) -> str:
        size = f"{self.kernel}×{self.kernel}"
        return f"depthwise {self.inputs}, {size}" if self.is_depthwise else f"{self.inputs} → {self.outputs}, {size}"


FORMS = (
    Form("base16", 64, 64, 3, is_depthwise=True),
    Form("base16", 64, 64, 5, is_depthwise=True),
    Form("dw16", 64, 64, 3, is_depthwise=True),
    Form("dw16", 64, 64, 5, is_depthwise=True),
    Form("base16", 3, 16, 3, is_inner=False),
    Form("base16", 3, 32, 3, is_inner=False),
    Form("base16", 8, 16, 3),
    Form("base16", 16, 16, 3),
    Form("base16", 32, 32, 3),
    Form("base16", 16, 16, 1),
    Form("base16", 32, 32, 1),
    Form("base16", 32, 64, 1),
)


def cycles(form: Form, is_bell: bool, is_symmetric: bool) -> int:
    """The exact cycles of a form with weights of a kind."""
    program = compile_model(network(form, is_bell, is_symmetric), load_machine(form.machine))
    return simulate_cycles(program, place_regions(program.limits)).cycles


def network(form: Form, is_bell: bool, is_symmetric: bool) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(1))
    group = form.inputs if form.is_depthwise else 1
    x = builder.quantize(builder.input("x", [1, form.inputs, 32, 32]), 0.05)
    if form.is_inner:
        x = builder.quantize(builder.node("Relu", [x], name="before"), 0.03)
    shape = form.outputs, form.inputs // group, form.kernel, form.kernel
    values, zero = (_bell if is_bell else _any_value)(shape, is_symmetric)
    scale, point = builder.constant("s", np.float32(0.01)), builder.constant("z", np.array(zero, np.uint8))
    weights = builder.node("DequantizeLinear", [builder.constant("w", values), scale, point], name="w.dq")
    pads = [form.kernel // 2] * 4
    builder.output(builder.quantize(builder.node("Conv", [x, weights], name="conv", group=group, pads=pads), 2.0))
    return builder.build()


def _any_value(shape: tuple[int, ...], is_symmetric: bool) -> tuple[NDArray[np.uint8], int]:
    values = np.random.default_rng(2).integers(1, 256, shape).astype(np.uint8)
    return values, CENTRE if is_symmetric else OFF_CENTRE


def _bell(shape: tuple[int, ...], is_symmetric: bool) -> tuple[NDArray[np.uint8], int]:
    real = np.random.default_rng(2).normal(size=shape)
    low, high = real.min(), real.max()
    step = max(-low, high) / 127 if is_symmetric else (high - low) / 255
    zero = CENTRE if is_symmetric else int(np.rint(-low / step))
    return np.clip(np.rint(real / step) + zero, 0, 255).astype(np.uint8), zero


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| machine | convolution | symmetric | any value | | bell | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for form in FORMS:
        symmetric = cycles(form, False, True)
        cells = [f"{each:,} | {each / symmetric:.2f}" for each in (cycles(form, kind, False) for kind in (False, True))]
        yield f"| `{form.machine}` | {form} | {symmetric:,} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
