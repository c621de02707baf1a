"""If and Loop: written out where their course is known, so that layers in them are the machine's; else on the host."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.control import all_inside, choice_in_a_loop, chosen, control_networks, repeated
from tests.formats.ends import Network
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.control_flow import MOST_UNROLLED
from tilewright.program import Program

NETWORKS = dict(control_networks())

FAST = [name if not place % 3 else pytest.param(name, marks=pytest.mark.slow) for place, name in enumerate(NETWORKS)]


def compiled(network: Network) -> Program:
    return tilewright.compile(network.model.SerializeToString(), "base16", effort=0)


def require_right(network: Network) -> Program:
    program = compiled(network)
    outputs, expected = program.run(network.inputs).outputs, run_onnx(network.model, network.inputs)
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        assert np.array_equal(outputs[name], values), name
    return program


@pytest.mark.parametrize("name", FAST)
def test_is_right(name: str) -> None:
    require_right(NETWORKS[name])


@pytest.mark.parametrize("condition", ["true", "false"])
def test_the_branch_that_is_taken_is_the_machines(condition: str) -> None:
    assert not require_right(chosen(condition, "layer", is_behind=True)).host_nodes


def test_iterations_are_the_machines() -> None:
    assert not require_right(repeated("constant", "layer", is_behind=True)).host_nodes


@pytest.mark.parametrize("count", ["input", "until"])
def test_layers_around_a_loop_of_the_host_are_the_machines(count: str) -> None:
    program = require_right(repeated(count, "layer", is_behind=True))
    assert [node.op_type for node in program.host_nodes] == ["Loop"]
    assert len(program.programs) == 2


@pytest.mark.parametrize("operator", ["If", "Loop"])
def test_all_of_a_network_may_be_inside(operator: str) -> None:
    assert not require_right(all_inside(operator)).host_nodes
    assert operator in [node.op_type for node in require_right(all_inside(operator, is_known=False)).host_nodes]


def test_a_choice_by_the_iterations_number_is_known() -> None:
    assert not require_right(choice_in_a_loop()).host_nodes


def test_a_long_loop_stays_a_loop() -> None:
    network = repeated("constant", "Neg", is_behind=False)
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    (times,) = (tensor for tensor in model.graph.initializer if tensor.name == loop.input[0])
    times.CopyFrom(onnx.numpy_helper.from_array(np.array(MOST_UNROLLED), times.name))
    program = require_right(Network(model, network.inputs))
    assert [node.op_type for node in program.host_nodes] == ["Loop"]


@pytest.mark.parametrize("operator", ["If", "Loop"])
@pytest.mark.parametrize("end", ["input", "output"])
def test_a_body_that_does_not_fit_is_refused(operator: str, end: str) -> None:
    """It is not written out either."""
    model = onnx.ModelProto()
    model.CopyFrom(all_inside(operator).model)
    (node,) = (node for node in model.graph.node if node.op_type == operator)
    body = next(attribute.g for attribute in node.attribute if attribute.HasField("g"))
    if end == "input":
        body.input.add().CopyFrom(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, []))
    else:
        del body.output[-1]
    with pytest.raises(CompileError, match="shapes do not fit|not a valid ONNX model"):
        compiled(Network(model, {}))
