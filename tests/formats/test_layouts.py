"""The layout and the type of a network's image cost nothing: the same cycles in every form."""

from __future__ import annotations

from functools import cache

import onnx
import pytest

from programs.networks.registry import int8_network
from tests.formats.layouts import channels_last, integer_input
from tests.rings import long_beyond
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

SMALL = ("ds-cnn", "resnet8")

OTHERS = (
    "mobilenetv1-0.25", "resnet20v2", "squeezenet1.1",
    "efficientnet-lite0", "mobilenetv1", "mobilenetv2", "mobilenetv3-large", "mobilenetv3-small",
    "resnet18", "squeezenet1.0",
)  # fmt: skip


@cache
def machine() -> Machine:
    return load_machine("vector16")


def cycles(model: onnx.ModelProto) -> int:
    program = compile_model(model, machine())
    return simulate_cycles(program, place_regions(program.limits)).cycles


@pytest.mark.parametrize("name", SMALL)
def test_every_form_of_the_image_takes_the_same_cycles(name: str) -> None:
    hold(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_beyond(3, OTHERS))
def test_every_form_of_a_larger_image_takes_the_same_cycles(name: str) -> None:
    hold(name)


def hold(name: str) -> None:
    model = int8_network(name)
    integers = integer_input(model)
    forms = [channels_last(model), integers, channels_last(integers)]
    assert {cycles(form) for form in forms} == {cycles(model)}
