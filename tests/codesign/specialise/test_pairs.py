"""Two steps of a nest that no single statement has, as one instruction."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.codesign.specialise.test_candidates import found
from tests.compiler.lower.test_softmax import softmax_model
from tests.compiler.models import random_inputs, residual_model
from tests.compiler.normalizations import normalizing_model
from tests.compiler.pipelines import base16, simulated
from tilewright.codesign.specialise.roles import NumberPlace, roles_of
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.operations import Op


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "machine", "model", "replaced"),
    [
        ("error_correct", "vector16", softmax_model([1, 40, 3, 3]), {"error", "correct"}),
        ("deviation_requantize", "sequence16", normalizing_model("one node", (1, 5, 48)), {"deviation"}),
        ("sum_channels_scale_sum", "sequence16", normalizing_model("one node", (1, 5, 48)), {"scale_sum"}),
    ],
)
def test_steps_of_softmax_and_of_norms_are_one_instruction(
    name: str, machine: str, model: onnx.ModelProto, replaced: set[str]
) -> None:
    """In fewer instructions, with the same bits."""
    plain = load_machine(machine)
    candidate = found(model, plain)[name]
    inputs = random_inputs(model, np.random.default_rng(0))

    before, after = (compile_model(model, each) for each in (plain, candidate.change.apply(plain)))

    used = {instruction.mnemonic for instruction in after.instructions}
    assert name in used and not replaced & used
    assert replaced <= {instruction.mnemonic for instruction in before.instructions}
    expected, own = simulated(before, inputs), simulated(after, inputs)
    assert own.keys() == expected.keys() and all(own[key].tolist() == expected[key].tolist() for key in own)


def test_a_nest_of_two_steps_has_no_further_pair() -> None:
    """The whole nest is the pair: it is there once."""
    candidate = found(residual_model(np.random.default_rng(5), channels=16))["requantize_add"]
    assert len(candidate.uses) == 1


def test_a_number_stays_one_where_the_machines_statements_have_it() -> None:
    """vector16 shifts by 8 to take the upper bits of a factor; base16 has no such shift."""
    place = NumberPlace(Op.SHIFT_RIGHT, 1, True)
    assert roles_of(load_machine("vector16")).is_constant(place, [8, 8])
    assert not roles_of(load_machine("vector16")).is_constant(place, [8, 9])
    assert not roles_of(base16()).is_constant(place, [8])
