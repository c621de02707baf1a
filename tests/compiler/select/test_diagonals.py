"""Products in which each channel has its own weight: the same bits in every form, and the form that streams least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

from tests.blocks import BLOCKS, with_blocks
from tests.compiler.machines import without
from tests.compiler.models import ModelBuilder, conv_model, random_inputs
from tests.compiler.pipelines import distances, lowered, simulated
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.select.diagonals import diagonals
from tilewright.compiler.select.select import select
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine

PADDED = [1, 1, 1, 1]
CONVOLUTIONS: Mapping[str, dict[str, Any]] = {
    "3x3": {"kernel": 3, "size": 9, "pads": PADDED},
    "3x3 stride 2": {"kernel": 3, "size": 9, "pads": PADDED, "stride": 2},
    "5x5": {"kernel": 5, "size": 9, "pads": [2, 2, 2, 2], "relu": True},
    "7x4": {"kernel": (7, 4), "size": 9},
    "batch": {"kernel": 3, "size": 6, "batch": 3},
    "2x2": {"kernel": 2, "size": 8},
    "4x2 stride 2": {"kernel": (4, 2), "size": 9, "stride": 2, "pads": PADDED},
}
"""Depthwise convolutions whose rows are cut into blocks of three taps: in one, with a zero tap or without, or in two
that overlap.
"""

TAP_BY_TAP = {"dilated": {"kernel": 3, "size": 9, "dilations": 2}}
"""Those whose rows have taps that are apart."""


def depthwise(channels: int = 20, **settings: Any) -> onnx.ModelProto:
    return conv_model(np.random.default_rng(3), channels, channels, group=channels, **settings)


def asymmetric(zero: int, channels: int = 20, kernel: int = 3, size: int = 9, stride: int = 1) -> onnx.ModelProto:
    """A depthwise convolution with random uint8 weights of any value."""
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", (1, channels, size, size)), 0.05, name="x.q")
    weights = np.random.default_rng(5).integers(0, 256, (channels, 1, kernel, kernel)).astype(np.uint8)
    leaves = [builder.constant(*each) for each in (("w", weights), ("scale", np.float32(0.01)), ("z", np.uint8(zero)))]
    w = builder.node("DequantizeLinear", leaves)
    pads, kernels = [kernel // 2] * 4, [kernel, kernel]
    y = builder.node("Conv", [x, w], kernel_shape=kernels, pads=pads, strides=[stride, stride], group=channels)
    builder.output(builder.quantize(y, 0.5, name="y.q"))
    return builder.build("asymmetric")


def mnemonics(model: onnx.ModelProto, machine: Machine) -> set[str]:
    return {instruction.mnemonic for instruction in compile_model(model, machine).instructions}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_is_the_same_in_blocks_as_on_the_array(name: str) -> None:
    model, machine = depthwise(**CONVOLUTIONS[name]), with_blocks()
    in_blocks, on_array = (compile_model(model, of) for of in (machine, without(machine, "depthwise")))
    assert "mma" not in {instruction.mnemonic for instruction in in_blocks.instructions}
    inputs = random_inputs(model, np.random.default_rng(2))
    results = [simulated(program, inputs) for program in (in_blocks, on_array)]
    for output, computed in results[0].items():
        np.testing.assert_array_equal(computed, results[1][output])
    assert distances(model, lambda inputs: simulated(in_blocks, inputs), count=2).max() <= 1


def test_padding_is_filled_where_the_tensor_is_whichever_operand_comes_first() -> None:
    text = BLOCKS.replace("      a: taps * act\n", "").replace('c, r, s]"\n', 'c, r, s]"\n      a: taps * act\n')
    machine, through_dram = load_machine_text(text, "weights first"), Options(tiling=TilingOptions(residency="none"))
    assert machine.format("depthwise").sources[-1].name == "a"
    program = compile_model(depthwise(**CONVOLUTIONS["3x3"]), machine, through_dram)
    assert "fill" in {instruction.mnemonic for instruction in program.instructions}


@pytest.mark.parametrize("name", TAP_BY_TAP)
def test_taps_that_make_no_block_stay_on_the_array(name: str) -> None:
    used = mnemonics(depthwise(**TAP_BY_TAP[name]), with_blocks())
    assert "mma" in used and "depthwise" not in used


def test_a_convolution_over_all_channels_stays_on_the_array() -> None:
    model = conv_model(np.random.default_rng(3), 20, 20, size=9)
    assert "depthwise" not in mnemonics(model, with_blocks())


@pytest.mark.parametrize("taps", [4, 6])
def test_rows_of_fewer_taps_than_a_block_stay_in_blocks(taps: int) -> None:
    """On the array it would take three times as long. What is more: a column beside the image, and longer pipelines."""
    model = depthwise(32, kernel=3, size=16, pads=PADDED)
    compiled = [
        compile_model(model, load_machine("dw16", [f"parameters.taps={count}"]), Options(effort=0))
        for count in (3, taps)
    ]
    as_long, longer = map(exact_cycles, compiled)
    assert longer <= (1 + 0.03 * (taps - 3)) * as_long
    inputs = random_inputs(model, np.random.default_rng(2))
    np.testing.assert_array_equal(*(simulated(program, inputs)["result"] for program in compiled))


@pytest.mark.parametrize(("zero", "stride"), [(100, 1), (3, 2), (255, 1)])
def test_weights_wider_than_int8_have_rows_for_each_term(zero: int, stride: int) -> None:
    model, symmetric = asymmetric(zero, stride=stride), asymmetric(128, stride=stride)
    in_blocks, plain = (compile_model(each, load_machine("dw16"), Options(effort=0)) for each in (model, symmetric))
    on_array = compile_model(model, without(load_machine("dw16"), "depthwise"), Options(effort=0))
    assert "mma" not in {instruction.mnemonic for instruction in in_blocks.instructions}
    assert exact_cycles(in_blocks) <= 2 * exact_cycles(plain)
    inputs = random_inputs(model, np.random.default_rng(2))
    np.testing.assert_array_equal(*(simulated(program, inputs)["result"] for program in (in_blocks, on_array)))
    assert distances(model, lambda inputs: simulated(in_blocks, inputs), count=2).max() <= 1


def test_blocks_of_one_row_overlap_within_the_window() -> None:
    """Five taps in blocks of three: 0 1 2 and 2 3 4; the second has a zero for tap 2."""
    nest, weights = chosen_form(depthwise(kernel=5, size=9), load_machine("dw16"))
    assert [(loop.trip, loop.name) for loop in nest.loops if loop.is_reduce] == [(5, "r"), (2, "s"), (3, "s_word")]
    assert weights.shape == (1, 20, 5, 6)
    assert not weights[..., 3].any() and weights[..., [0, 1, 2, 4, 5]].any(axis=(0, 1, 2)).all()


def test_a_tap_a_cycle_is_no_faster_than_the_array_and_is_not_chosen() -> None:
    used = mnemonics(depthwise(32, kernel=3, size=9), load_machine("vector16"))
    assert "mma" in used and "depthwise" not in used


def test_a_machine_without_an_array_sums_tap_by_tap() -> None:
    machine = without(load_machine("vector16"), "mma", "mma_transposed")
    program = lowered(depthwise(32, kernel=3, size=9))
    (cover,) = select(diagonals(program, machine), machine).covers
    assert [step.format.mnemonic for step in cover.steps] == ["depthwise", "requantize"]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_form_of_the_nest_has_the_same_values(name: str) -> None:
    model = depthwise(**CONVOLUTIONS[name])
    before = lowered(model)
    after = diagonals(before, load_machine("dw16"))
    assert after.nests != before.nests
    inputs = random_inputs(model, np.random.default_rng(5))
    one, other = (run_nests(program, inputs) for program in (before, after))
    for output in before.outputs:
        np.testing.assert_array_equal(one[output.name], other[output.name])


def chosen_form(model: onnx.ModelProto, machine: Machine) -> tuple[Nest, np.ndarray]:
    program = diagonals(lowered(model), machine)
    (nest,) = program.nests
    return nest, program.constants[nest.reads["w"].tensor]
