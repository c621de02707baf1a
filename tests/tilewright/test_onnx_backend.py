"""ONNX's backend interface: what it takes and refuses, and that no test of the onnx package is lost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

import tilewright.onnx_backend as backend
from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.onnx_backend.page import (
    MACHINES,
    NAMES,
    PAGE,
    QUANTISED,
    page,
    quantised,
    quantised_count,
    read_page,
    type_rows,
)
from tests.onnx_backend.results import Outcome, Place, by_name, run_backend_tests
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.host.model import HostModel, in_oldest_opset
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.program.small_floats import small_float_of
from tilewright.isa.program.stored_types import COMPUTED_INTEGERS
from tilewright.program import Program

RANKS = (Place.FAILED, Place.HOST, Place.BOTH, Place.NPU)
"""From worst to best."""


def float_model(opset: int = 17) -> onnx.ModelProto:
    model: onnx.ModelProto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> float (float[1, 2] x) => (float[1, 2] y) {{ y = Relu(x) }}'
    )
    return model


X = np.array([[-1.0, 2.0]], np.float32)


def lost(outcomes: tuple[Outcome, ...], expected: dict[str, Place]) -> list[str]:
    """Tests that the page says ran in a better place."""
    found = by_name(outcomes)
    return [
        f"{name}: {place.value} → {found[name].place.value}: {found[name].reason}"
        for name, place in expected.items()
        if name in found and RANKS.index(found[name].place) < RANKS.index(place)
    ]


@pytest.mark.slow
def test_no_backend_test_is_lost() -> None:
    expected = read_page(PAGE.read_text())
    outcomes = run_backend_tests()
    assert lost(outcomes, expected) == []
    assert len(expected) > 2000
    assert {name for name, of in by_name(outcomes).items() if of.place is not Place.FAILED} >= set(expected)


def test_the_page_is_read_as_it_is_written() -> None:
    outcomes = (
        Outcome("Node", "test_a", Place.NPU, "", ("QLinearConv",)),
        Outcome("Node", "test_b", Place.HOST, "no", ()),
        Outcome("Simple", "test_a", Place.BOTH, "part", ()),
        Outcome("Simple", "test_c", Place.FAILED, "never", ()),
    )
    read = read_page(page(outcomes, "1", {"base16": outcomes[:1]}))
    assert read == {"Node test_a": Place.NPU, "Node test_b": Place.HOST, "Simple test_a": Place.BOTH}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_machines_of_other_types_run_the_integer_tests(machine: str) -> None:
    """As many as base16: the page has the counts, and no test is worse anywhere.

    Machines of floats lose those whose activations are integers, to the host and for no other reason.
    """
    usual, found = (run_backend_tests(NAMES, name) for name in (MACHINES[0], machine))
    row = type_rows({MACHINES[0]: usual, machine: found})[-1]
    assert "| " + " | ".join(row) + " |" in PAGE.read_text().splitlines()
    worse = lost(found, {f"{of.kind} {of.name}": of.place for of in usual})
    activation = arithmetic_of(load_machine(machine)).activation
    if isinstance(activation, FloatType):
        worse = [text for text in worse if not lacks_integers(text, small_float_of(activation).name)]
    assert worse == []


def lacks_integers(lost_test: str, activation: str) -> bool:
    """Whether a test that the machine had is the host's since its activations are integers."""
    integers = "|".join(COMPUTED_INTEGERS)
    reason = rf"an activation is ({integers}); expected {activation}\. take a machine whose activations hold \1"
    return re.fullmatch(rf".*: NPU → host: {reason}", lost_test) is not None


def test_a_test_that_is_lost_for_another_reason_is_noticed() -> None:
    reason = "an activation is int8; expected float8_e4m3fn. take a machine whose activations hold int8"
    assert lacks_integers(f"Node test_a: NPU → host: {reason}", "float8_e4m3fn")
    for text in (
        f"Node test_a: NPU → failed: {reason}",
        f"Node test_a: NPU → host: {reason}, no way",
        f"Node test_a: NPU → host: {reason.replace('activation is int8', 'activation is float8_e4m3fn')}",
        "Node test_a: NPU → host: no int32",
    ):
        assert not lacks_integers(text, "float8_e4m3fn")


def test_a_row_of_types_counts_and_names_what_is_elsewhere() -> None:
    there = Outcome("Node", "test_a", Place.NPU, "", ("QLinearConv",))
    others = (
        there,
        Outcome("Node", "test_b", Place.NPU, "", ("ConvInteger",)),
        Outcome("Node", "test_c", Place.NPU, "", ("Relu",)),
    )
    gone = (there, Outcome("Node", "test_b", Place.HOST, "no int32", ("ConvInteger",)))
    rows = type_rows({"one": others, "two": gone})
    assert rows == [("one", "2", "0", "0", "0", "2", ""), ("two", "1", "0", "1", "0", "2", "b: no int32")]


def test_the_page_tells_of_quantised_operators() -> None:
    names = ["QLinearConv", "DynamicQuantizeLinear", "DequantizeLinear", "ConvInteger", "LinearAttention", "Conv"]
    assert [bool(QUANTISED.search(name)) for name in names] == [True, True, True, True, False, False]


def test_the_page_counts_tests_of_quantised_operators() -> None:
    outcomes = (
        Outcome("Node", "test_a", Place.NPU, "", ("QLinearConv",)),
        Outcome("Node", "test_b", Place.HOST, "no", ("Relu", "QuantizeLinear")),
        Outcome("Node", "test_c", Place.NPU, "", ("Relu",)),
        Outcome("Node", "test_d", Place.NPU, "", ("ConvInteger",)),
    )
    assert quantised_count(outcomes) == "Of 3 tests: NPU 2, host 1."
    assert quantised(outcomes) == [("a", "NPU", ""), ("b", "host", "no"), ("d", "NPU", "")]


def test_a_worse_place_is_noticed() -> None:
    there = (Outcome("Node", "test_a", Place.HOST, "gone", ()),)
    assert lost(there, {"Node test_a": Place.NPU}) == ["Node test_a: NPU → host: gone"]
    assert lost(there, {"Node test_a": Place.HOST}) == []


HOST = re.compile("dynamicquantizelinear|e5m2")
"""Names of tests of integer-quantised operators that `base16` cannot do: docs/onnx-backend.md says why."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the package's own expected values
def test_integer_quantised_tests_run_on_the_machine_bit_for_bit() -> None:
    """The onnx package compares with a tolerance; here every value is as it expects it."""
    wrong = []
    for case in collect_testcases(None):
        assert case.model is not None and case.data_sets is not None
        if not any(QUANTISED.search(node.op_type) for node in case.model.graph.node):
            continue
        prepared = backend.prepare(case.model)
        for inputs, expected in case.data_sets:
            results = prepared.run([plain(value) for value in inputs])
            (network,) = prepared.networks
            is_on_machine = isinstance(network, Program) and not network.host_nodes
            same = (is_same(result, plain(value)) for result, value in zip(results, expected, strict=True))
            if is_on_machine == bool(HOST.search(case.name)) or not all(same):
                wrong.append(case.name)
    assert wrong == []


def plain(value: Any) -> NDArray[Any]:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def is_same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


# -- the interface -----------------------------------------------------------------------------------------------------


def test_runs_a_quantised_model_on_the_machine() -> None:
    model = conv_model(np.random.default_rng(0))
    prepared, inputs = backend.prepare(model, isa="tiny8"), random_inputs(model, np.random.default_rng(1))
    (result,) = prepared.run(list(inputs.values()))
    network = prepared.network(inputs)
    assert isinstance(network, Program)
    assert (network.machine.name, network.host_nodes) == ("tiny8", ())
    (expected,) = run_onnx(model, inputs).values()
    assert np.mean(result == expected) > 0.99


def test_outputs_have_names_too() -> None:
    outputs = backend.run_model(float_model(), {"x": X})
    assert outputs["y"] is outputs[0]  # type: ignore[call-overload]


def test_takes_one_array_a_list_or_names() -> None:
    prepared = backend.prepare(float_model())
    for inputs in (X, [X], {"x": X}):
        assert np.array_equal(prepared.run(inputs)[0], [[0.0, 2.0]])


def test_runs_a_node() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    assert np.array_equal(backend.run_node(node, [X, X])[0], X + X)
    assert np.array_equal(backend.run_node(node, [X, X], opset_version=13)[0], X + X)


def test_a_node_may_leave_inputs_out() -> None:
    node = onnx.helper.make_node("Clip", ["x", "", "high"], ["y"])
    assert np.array_equal(backend.run_node(node, [X, np.float32(1)])[0], [[-1.0, 1.0]])


def test_parameters_that_are_inputs_become_constants() -> None:
    node = onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    model = backend.model_of_node(node, [X, np.array(0.5, np.float32), np.array(3, np.int8)], 21)
    assert backend.parameters(model) == ["scale", "zero"]
    prepared = backend.prepare(model)
    for zero in (3, 4):
        assert np.array_equal(prepared.run([X, np.float32(0.5), np.int8(zero)])[0], [[zero - 2, zero + 4]])
    assert len(prepared.networks) == 2
    assert all(isinstance(network, Program) and network.host_nodes == () for network in prepared.networks)


def test_what_is_data_too_is_no_parameter() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[2] x, float s) => (int8[2] y, float t)'
        "{ zero = Constant<value = int8 {0}>() y = QuantizeLinear(x, s, zero) t = Relu(s) }"
    )
    assert backend.parameters(model) == []


def test_open_sizes_are_those_of_the_inputs() -> None:
    model = float_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    prepared = backend.prepare(model)
    for batch in (1, 3):
        assert prepared.run([np.repeat(X, batch, 0)])[0].shape == (batch, 2)


def test_sequences_run_on_the_host() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (seq(float[1, 2]) s) => (float[1, 4] y)'
        "{ y = ConcatFromSequence<axis = 1>(s) }"
    )
    prepared = backend.prepare(model)
    assert np.array_equal(prepared.run([[X, X]])[0], [[-1.0, 2.0, -1.0, 2.0]])
    assert isinstance(prepared.networks[0], HostModel)


def test_a_sequence_comes_out_of_the_host() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[1, 2] x) => (seq(float[1, 2]) s)'
        "{ s = SequenceConstruct(x, x) }"
    )
    (result,) = backend.prepare(model).run([X])
    assert [values.tolist() for values in result] == [X.tolist(), X.tolist()]


def test_old_models_whose_initialisers_are_inputs_too_run() -> None:
    """Before ONNX's IR version 4 each initialiser is listed among the inputs; a part of the host's is not so."""
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 7]> f (float[1, 2] x, int64[1] s) => (float[2] y) <int64[1] s = {2}>'
        "{ y = Reshape(x, s) }"
    )
    prepared = backend.prepare(model)
    assert prepared.run([X])[0].tolist() == [-1.0, 2.0]
    assert isinstance(prepared.networks[0], Program)


def test_host_floats_false_refuses_a_float_model() -> None:
    with pytest.raises(CompileError, match="the model is float"):
        backend.prepare(float_model(), host_floats=False).run([X])


@pytest.mark.parametrize(("device", "is_there"), [("CPU", True), ("CPU:0", True), ("CUDA", False), ("TPU", False)])
def test_the_device_is_the_cpu(device: str, is_there: bool) -> None:
    assert backend.supports_device(device) == is_there


def test_refuses_another_device() -> None:
    with pytest.raises(InputError, match=r"^no device 'CUDA'; there is: CPU, which simulates the machine$"):
        backend.prepare(float_model(), "CUDA")


def test_refuses_a_wrong_number_of_inputs() -> None:
    with pytest.raises(InputError, match=r"^got 2 inputs; the model takes: x$"):
        backend.prepare(float_model()).run([X, X])


def test_refuses_an_invalid_model() -> None:
    model = float_model()
    model.graph.node[0].op_type = "Relux"
    with pytest.raises(onnx.checker.ValidationError):
        backend.prepare(model)


# -- the host's models -------------------------------------------------------------------------------------------------


def test_a_model_of_a_new_opset_is_told_in_the_oldest_that_means_the_same() -> None:
    model = float_model(opset=onnx.defs.onnx_opset_version())
    renamed = in_oldest_opset(model)
    assert renamed.opset_import[0].version == onnx.defs.get_schema("Relu").since_version
    assert np.array_equal(HostModel(model.SerializeToString()).run(["y"], {"x": X})["y"], [[0.0, 2.0]])


def test_what_no_evaluator_knows_is_an_error_of_ours() -> None:
    model = float_model()
    model.graph.node[0].domain = "nobody.knows"
    model.opset_import.append(onnx.helper.make_opsetid("nobody.knows", 1))
    with pytest.raises(InputError, match=r"^the host cannot run its part of the network, '' \(Relu\): "):
        HostModel(model.SerializeToString()).run(["y"], {"x": X})
