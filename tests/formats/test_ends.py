"""What files have at their ends compiles, and computes what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.ends import KINDS, Network, Nodes, handed_on, odd_axis, split_concat
from tilewright.program import Program

NETWORKS = {f"{kind}: {name}": network for kind, make in KINDS.items() for name, network in make()}


def compiled(network: Network, isa: str = "base16") -> Program:
    return tilewright.compile(network.model.SerializeToString(), isa, effort=0)


def require_right(network: Network, isa: str) -> None:
    outputs = compiled(network, isa).run(network.inputs).outputs
    expected = run_onnx(network.model, network.inputs)
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        assert outputs[name].dtype == values.dtype
        assert outputs[name].shape == values.shape
        assert np.array_equal(outputs[name], values), name


FAST = [name if not place % 3 else pytest.param(name, marks=pytest.mark.slow) for place, name in enumerate(NETWORKS)]
"""Every third in the fast ring."""


@pytest.mark.parametrize("name", FAST)
def test_is_right(name: str) -> None:
    require_right(NETWORKS[name], "base16")


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_is_right_on_a_small_machine(name: str) -> None:
    require_right(NETWORKS[name], "tiny8")


@pytest.mark.parametrize("name", [name for name in NETWORKS if name.startswith("parts of")])
def test_parts_stay_on_the_machine(name: str) -> None:
    assert not compiled(NETWORKS[name]).host_nodes


def test_an_input_that_is_an_output_takes_no_cycles() -> None:
    n = Nodes()
    n.output(n.conv(n.image("x", np.int8)))
    alone, handed = compiled(n.network()), compiled(handed_on("x", np.int8, []))
    assert handed.programs[0].instructions == alone.programs[0].instructions
    assert not handed.host_nodes


def test_a_reason_says_what_an_output_is_made_of() -> None:
    (node,) = compiled(handed_on("k", np.array([7]), ["Identity"])).host_nodes
    assert node.reason == "makes 't5' of inputs of the model that are not quantised"


def test_a_split_that_leaves_out_its_first_part() -> None:
    """ONNX Runtime ends the process for it, so the expected value is numpy's."""
    network = split_concat(2, 2, 1)
    whole = run_onnx(network.model, network.inputs)["part1"]
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    model.graph.node[-1].output[0] = ""
    del model.graph.output[0]
    assert np.array_equal(compiled(Network(model, {})).run(network.inputs).outputs["part1"], whole)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_an_only_layer_with_scales_along_an_odd_axis_is_the_hosts(axis: int) -> None:
    network = odd_axis((16, 4, 3, 3), axis, has_layer=False)
    require_right(network, "base16")
    reasons = {node.op_type: node.reason for node in compiled(network).host_nodes}
    assert reasons["Conv"] == (
        "its weights have scales along another dimension than the output channels; expected one scale, or one for each "
        "output channel"
    )
