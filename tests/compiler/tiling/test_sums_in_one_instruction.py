"""A machine whose products cannot add to sums that are there: a sum is one instruction, or the network is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import conv_model, random_inputs
from tests.compiler.pipelines import base16, simulated
from tests.digits import FOLDER
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

WITHOUT = ["instructions.mma.flags=null", "instructions.mma_transposed=null"]


@pytest.mark.parametrize("kib", [5, 96])
def test_a_network_keeps_its_bits(kib: int) -> None:
    model = FOLDER / "digits_int8.onnx"
    inputs = {"image": np.load(FOLDER / "images.npz")["images"][:1]}
    expected = simulated(compile_model(model, base16()), inputs)
    machine = load_machine("base16", [*WITHOUT, f"memories.wgt.kib={kib}"])
    computed = simulated(compile_model(model, machine), inputs)
    assert np.array_equal(computed["logits"], expected["logits"])


def test_a_sum_that_no_instruction_holds_is_refused() -> None:
    """48 channels in vectors of 16 are 3 steps of k; 2 fit its one bit, and r and s have one bit for 3 taps each."""
    narrow = [f"instructions.mma.loops.{loop}=1" for loop in "rsk"]
    model = conv_model(np.random.default_rng(0), 48, 16, size=6)
    with pytest.raises(CompileError) as refused:
        compile_model(model, load_machine("base16", [*WITHOUT, *narrow]))
    assert str(refused.value) == (
        "mma: a reduction over 3 × 3 × 3 words does not fit its reduce loops (r: 2, s: 2, k: 2); give them more bits"
    )


def test_with_the_flag_the_same_sum_is_cut() -> None:
    narrow = [f"instructions.mma.loops.{loop}=1" for loop in "rsk"]
    model = conv_model(np.random.default_rng(0), 48, 16, size=6)
    inputs = random_inputs(model, np.random.default_rng(0))
    expected = simulated(compile_model(model, base16()), inputs)
    computed = simulated(compile_model(model, load_machine("base16", narrow)), inputs)
    assert all(np.array_equal(computed[name], expected[name]) for name in expected)
