"""Single layers: effort against chance."""

from __future__ import annotations

from functools import partial

import pytest
from numpy.random import default_rng

from tests.compiler.models import conv_model
from tests.schedules.draws import LAYERS, compared
from tilewright.isa.files.loader import load_machine


def test_more_effort_finds_what_draws_find() -> None:
    model = conv_model(default_rng(0), 16, 24, size=8, kernel=1)
    found = compared(model, load_machine("tiny8"), draws=20)
    assert found.bound < found.more <= found.less
    assert found.more <= found.drawn
    assert found.draws == 20 < found.tilings
    every = partial(compared, model, load_machine("tiny8"), 20)
    assert (every(seed=0).drawn, every(seed=0).draws) == (found.drawn, found.draws)  # the same draws


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8 3x3, 16 to 16, 32 pixels", "resnet8 3x3, 32 to 64, 16 pixels, stride 2"])
def test_more_effort_finds_the_best_of_all_draws_and_less_does_not(name: str) -> None:
    found = compared(LAYERS[name](default_rng(0)), load_machine("base16"), draws=1000)
    assert found.draws == found.tilings
    assert found.more <= found.drawn < found.less
