"""What nodes and tensors of a network are called decides nothing: under other names, it has the same instructions."""

from __future__ import annotations

from functools import cache

import onnx
import pytest

from programs.networks.registry import int8_network
from tilewright.api import compile  # noqa: A004
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program


@cache
def program(network: str, isa: str, is_renamed: bool) -> Program:
    model = int8_network(network)
    (found,) = compile(renamed(model) if is_renamed else model, load_machine(isa)).programs
    return found


@pytest.mark.parametrize(("network", "isa"), [("resnet8", "tiny8"), ("resnet8", "base16"), ("lstm-denoiser", "tiny8")])
def test_names_decide_nothing(network: str, isa: str) -> None:
    """The new names come in the opposite order."""
    one, other = program(network, isa, False), program(network, isa, True)
    assert {tensor.name for tensor in one.inputs} != {tensor.name for tensor in other.inputs}
    assert one.instructions == other.instructions
    assert one.weights == other.weights


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network; whatever name came first, in the order of the alphabet, comes last."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    values = [*graph.input, *graph.output, *graph.value_info, *graph.initializer]
    names = {value.name for value in values}
    names |= {name for node in graph.node for name in (*node.input, *node.output)} - {""}
    new = {name: f"n{len(names) - number:06d}" for number, name in enumerate(sorted(names))}
    for value in values:
        value.name = new[value.name]
    for number, node in enumerate(graph.node):
        node.name = f"n{len(graph.node) - number:06d}"
        for of in (node.input, node.output):
            of[:] = [new[name] if name else "" for name in of]
    return copy
