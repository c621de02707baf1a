"""What lowering tells the user: where the machine's multipliers leave results off."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tests.compiler.pipelines import lowered, simplified
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

SHORT_SHIFTS = ["memories.par.element.shift=uint4"]


def test_a_machine_that_holds_the_factors_has_nothing_to_say() -> None:
    assert lowered(conv_model(np.random.default_rng(0), 8, 8)).remarks == {}


def test_says_which_layer_loses_precision_and_how_much() -> None:
    """A shift of four bits is at most 15: a factor of 0.002 becomes 66 / 2**15, which is off by up to 1 in 132."""
    model = conv_model(np.random.default_rng(0), 8, 8)
    nests = lower(simplified(model), load_machine("base16", SHORT_SHIFTS))
    (about, text), *others = nests.remarks.items()
    assert about == "precision of conv" and others == []
    assert text.startswith("the machine's multipliers of 16 bits and shifts of up to 15 leave results up to ")


def test_the_remark_goes_along_through_the_levels_into_the_program() -> None:
    machine = load_machine("base16", SHORT_SHIFTS)
    model = conv_model(np.random.default_rng(0), 8, 8)
    nests = lower(simplified(model), machine)
    assert parse_nests(print_nests(nests)).remarks == nests.remarks
    metadata = compile_model(model, machine).metadata
    assert {about: text for about, text in metadata.items() if about != "model"} == nests.remarks


@pytest.mark.parametrize("machine", ["tiny8", "vta16", "tensil8", "wide32"])
def test_shipped_machines_hold_usual_factors(machine: str) -> None:
    assert lower(simplified(conv_model(np.random.default_rng(1), 8, 8)), load_machine(machine)).remarks == {}
