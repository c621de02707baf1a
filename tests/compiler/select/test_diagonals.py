"""Products in which each channel has its own weight: the same bits in every form, and the form that streams least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

from tests.blocks import BLOCKS, with_blocks
from tests.compiler.machines import without
from tests.compiler.models import conv_model, random_inputs
from tests.compiler.pipelines import distances, lowered, simulated
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.diagonals import sum_own_channels
from tilewright.compiler.select.selector import select
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
}
"""Depthwise convolutions whose rows are cut into blocks of three taps: in one, or in two that overlap."""

TAP_BY_TAP = {"2x2": {"kernel": 2, "size": 8}, "dilated": {"kernel": 3, "size": 9, "dilations": 2}}
"""Those whose rows have fewer taps than a block, or taps that are apart."""


def depthwise(channels: int = 20, **settings: Any) -> onnx.ModelProto:
    return conv_model(np.random.default_rng(3), channels, channels, group=channels, **settings)


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
    (cover,) = select(sum_own_channels(program, machine), machine).covers
    assert [step.format.mnemonic for step in cover.steps] == ["depthwise", "requantize"]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_form_of_the_nest_has_the_same_values(name: str) -> None:
    model = depthwise(**CONVOLUTIONS[name])
    before = lowered(model)
    after = sum_own_channels(before, load_machine("dw16"))
    assert after.nests != before.nests
    inputs = random_inputs(model, np.random.default_rng(5))
    one, other = (run_nests(program, inputs) for program in (before, after))
    for output in before.outputs:
        np.testing.assert_array_equal(one[output.name], other[output.name])


def chosen_form(model: onnx.ModelProto, machine: Machine) -> tuple[Nest, np.ndarray]:
    program = sum_own_channels(lowered(model), machine)
    (nest,) = program.nests
    return nest, program.constants[nest.reads["w"].tensor]
