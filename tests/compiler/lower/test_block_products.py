"""Weights with a scale for each block along the sum: on a machine that adds up sums of blocks, and on others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.compiler.block_models import block_model, convolution_in_blocks
from tests.compiler.models import random_inputs, run_onnx
from tests.compiler.pipelines import simplified, simulated
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program

FAST = Options(effort=0)


@pytest.fixture
def machine() -> str:
    """That which adds up sums of blocks."""
    return "llm16"


def compiled(model: onnx.ModelProto, machine: str) -> Program:
    return compile_model(model, load_machine(machine), FAST)


def steps_off(model: onnx.ModelProto, machine: str) -> np.ndarray:
    """How many steps each result is from ONNX Runtime's."""
    inputs = random_inputs(model, np.random.default_rng(3))
    (found,), (meant,) = (
        tuple(results.values()) for results in (simulated(compiled(model, machine), inputs), run_onnx(model, inputs))
    )
    step = float(next(numpy_helper.to_array(each) for each in model.graph.initializer if each.name == "y_scale"))
    assert len(np.unique(np.rint(meant / step))) > 20
    return np.rint((found - meant) / step)


@pytest.mark.parametrize(("summed", "block"), [(80, 32), (64, 16), (160, 128)])
def test_results_are_those_of_onnx_runtime(summed: int, block: int, machine: str) -> None:
    assert not steps_off(block_model(summed, block=block), machine).any()


@pytest.mark.parametrize("is_of_window", [False, True], ids=["a scale of each tap", "a scale of all taps"])
@pytest.mark.parametrize(("channels", "stride"), [(32, 1), (40, 2)])
def test_a_convolution_may_have_windows(channels: int, stride: int, is_of_window: bool, machine: str) -> None:
    """40 channels end within the third block; the border of the image is padded."""
    model = convolution_in_blocks(channels, stride=stride, is_of_window=is_of_window)
    off = steps_off(model, machine)
    assert np.abs(off).max() <= 1 and (off == 0).mean() >= 0.995


@pytest.mark.parametrize(("is_of_window", "sums"), [(False, 27), (True, 3)])
def test_a_window_whose_taps_have_one_scale_is_one_sum(is_of_window: bool, sums: int, machine: str) -> None:
    """48 channels in blocks of 16 with a window of 3 × 3."""
    lowered = lower(simplified(convolution_in_blocks(is_of_window=is_of_window)), load_machine(machine))
    assert len({nest.name.split(".block")[1] for nest in lowered.nests if ".block" in nest.name}) == sums


@pytest.mark.parametrize(
    ("element", "zeros", "mnemonic"),
    [("UINT4", (8,), "mma_w4"), ("UINT4", (3, 8, 15), "mma"), ("INT8", (), "mma"), ("INT4", (), "mma_w4")],
)
def test_weights_take_the_narrowest_type_that_holds_them(
    element: str, zeros: tuple[int, ...], mnemonic: str, machine: str
) -> None:
    model = block_model(64, element=element, zeros=zeros)
    multiplying = {each.mnemonic for each in compiled(model, machine).instructions if "mma" in each.mnemonic}
    assert multiplying == {mnemonic}
    assert not steps_off(model, machine).any()


def test_sums_of_blocks_never_leave_the_chip(machine: str) -> None:
    moved = {each.mnemonic for each in compiled(block_model(96, 200), machine).instructions}
    assert not moved & {"store_acc", "load_acc"}


@pytest.mark.slow
def test_results_that_do_not_fit_at_once_are_in_parts(machine: str) -> None:
    """768 weights of 32 a block are 24 sums for each result; 700 results of 5 rows are 5,280 words, and 2,048 fit."""
    model = block_model(768, 700, rows=5)
    parts = {layer.name for layer in compiled(model, machine).layers}
    assert len(parts) > 1
    off = steps_off(model, machine)
    assert np.abs(off).max() <= 1 and (off == 0).mean() >= 0.995


def test_names_what_a_machine_without_the_instruction_lacks() -> None:
    with pytest.raises(CompileError) as refused:
        compiled(block_model(), "sequence16")
    assert str(refused.value) == (
        "node 'matmul' (conv): its weights have a scale for each block of 32, and no instruction adds up sums of "
        "blocks; expected an instruction that does, `wrap(sum(a * w), acc)` with `a` in acc, as llm16 has"
    )


def test_refuses_blocks_that_end_within_a_vector(machine: str) -> None:
    with pytest.raises(CompileError) as refused:
        compiled(block_model(block=24), machine)
    assert str(refused.value) == (
        "node 'matmul' (conv): its weights have a scale for each block of 24; expected a multiple of 16, the channels "
        "of a vector"
    )
