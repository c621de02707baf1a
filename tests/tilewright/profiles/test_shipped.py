"""Advice that knows what is shipped: only machines that are this one and more, only where layers leave it empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tilewright.profiles.test_report import layer, made
from tilewright.isa.files.loader import load_machine
from tilewright.profiles.shipped import shipped_advice, with_more_instructions
from tilewright.simulator.run_profile import LayerProfile, Resource

BASE = load_machine("base16")


def test_a_shipped_machine_is_this_one_and_more() -> None:
    found = with_more_instructions(BASE)
    assert found["dw16"] == ("depthwise",)
    assert {"base16", "tiny8", "wide32", "rect", "tensil16"}.isdisjoint(found)
    assert with_more_instructions(load_machine("dw16")).keys().isdisjoint({"base16", "vector16"})


def test_a_machine_of_another_size_is_none() -> None:
    assert with_more_instructions(load_machine("base16", ("memories.act.kib=64",))) == {}
    assert with_more_instructions(load_machine("base16", ("array.cols=32",))) == {}


def empty(cycles: int, utilisation: float = 0.06, bound: Resource = Resource.COMPUTE) -> LayerProfile:
    return replace(layer("thin", cycles), macs=100, utilisation=utilisation, bound=bound)


def test_says_what_there_is_for_layers_that_leave_the_array_empty() -> None:
    [line] = shipped_advice(made(empty(60), layer("full", 40)), BASE)
    assert line.startswith("60.0 % are in layers that leave most of the array empty: thin. Other shipped machines")
    assert "dw16 (depthwise)" in line
    assert "tilewright compare NET.onnx --isa base16 " in line and "--isa dw16 " in line


@pytest.mark.parametrize("thin", [empty(9), empty(60, 0.3), empty(60, bound=Resource.DRAM)])
def test_says_nothing_where_it_would_not_matter(thin: LayerProfile) -> None:
    assert shipped_advice(made(thin, layer("full", 91)), BASE) == ()


def test_says_nothing_where_no_machine_has_more() -> None:
    assert shipped_advice(made(empty(60)), load_machine("wide32")) == ()
