"""Accumulators of any width: statements follow the memory's element, no sum overflows, and what may is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import random_inputs, run_onnx
from tests.compiler.pipelines import simulated
from tests.rings import slow_beyond
from tests.schedules.never_slower import model as network
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.program.program import place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""

LEAST = -(1 << 19)
"""The least int20."""

LARGEST_WEIGHT = 127


def product(columns: Sequence[Sequence[int]], scale: float = 8192.0) -> onnx.ModelProto:
    """x · w, with w as columns of int8 and x of int8, in steps of `scale`."""
    weights = np.array(columns, np.int8).T
    constants = {"one": np.float32(1), "scale": np.float32(scale), "zero": np.int8(0), "w": weights}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "one", "zero"], ["x.real"]),
        helper.make_node("DequantizeLinear", ["w", "one", "zero"], ["w.real"]),
        helper.make_node("MatMul", ["x.real", "w.real"], ["total"], name="product"),
        helper.make_node("QuantizeLinear", ["total", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [2, len(weights)])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [2, weights.shape[1]])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def with_sum(total: int) -> list[int]:
    """A column of 36 weights with this sum, none below 0: -128 times it is the least sum that it can make."""
    full, rest = divmod(total, LARGEST_WEIGHT)
    return [LARGEST_WEIGHT] * full + [rest] + [0] * (35 - full)


def extremes(length: int) -> dict[str, NDArray[np.int8]]:
    """The inputs of the least and of the greatest sum of weights that are not negative."""
    return {"x": np.array([[-128] * length, [127] * length], np.int8)}


@pytest.mark.parametrize("element", ["int20", "int24", "int28", "int40"])
def test_statements_take_the_width_from_the_memory(element: str) -> None:
    machine = load_machine("base16", [f"memories.acc.element={element}"])
    wraps = [machine.format(name).statement.expr for name in ("mma", "mma_transposed", "sum", "add_bias", "add_sums")]

    assert {str(each.type) for each in wraps} == {element}


def test_immediates_take_their_type_from_the_memory() -> None:
    machine = load_machine("base16", ["memories.act.element=int6", "instructions.lookup=null"])

    assert set(map(str, machine.format("fill").immediates.values())) == {"int6"}
    assert str(machine.format("requantize").immediates["low"]) == "int6"


def test_a_memory_may_have_the_element_of_one_above_it() -> None:
    machine = load_machine("base16", ["memories.lut.element=act"])

    assert machine.memories["lut"].element.type == IntegerType(8, True)


def test_a_statement_may_still_say_a_type() -> None:
    """As long as the memory holds it; the array leaves what the memory has."""
    narrow = load_machine_text("extends: base16\ninstructions: {add_sums: {do: 'y = wrap(a + b, int20)'}}", "m.yaml")
    assert str(narrow.format("add_sums").statement.expr.type) == "int20"
    with pytest.raises(IsaError) as error:
        load_machine_text("extends: base16\ninstructions: {mma: {do: 'c = wrap(sum(dot(a, w)), int20)'}}", "m.yaml")
    assert "the sum wraps into int20, but c holds int32" in str(error.value)


def test_a_structure_is_no_type_of_a_value() -> None:
    with pytest.raises(IsaError) as error:
        load_machine_text("extends: base16\ninstructions: {add_sums: {do: 'y = wrap(a + b, par)'}}", "m.yaml")
    assert str(error.value) == (
        "m.yaml:2:31: instructions.add_sums.do: unknown type 'par': expected int2 … int63, uint1 … uint63, "
        "e4m3 or e2m1, or a memory of such: act, wgt, acc, lut"
    )


def test_a_sum_that_just_fits_is_exact() -> None:
    model = product([with_sum(LEAST // -128), with_sum(7)])
    machine = load_machine("base16", ["memories.acc.element=int20"])
    results = simulated(compile_model(model, machine), extremes(36))
    expected = run_onnx(model, extremes(36))

    np.testing.assert_array_equal(results["y"], expected["y"])
    assert expected["y"][0, 0] == LEAST / 8192


def test_a_sum_that_may_be_one_more_is_refused_with_what_would_do() -> None:
    model = product([with_sum(7), with_sum(LEAST // -128 + 1)])
    with pytest.raises(CompileError) as error:
        compile_model(model, load_machine("base16", ["memories.acc.element=int20"]))
    assert str(error.value) == (
        "product (MatMul): its sums may reach -524,416 to 520,319, and mma leaves int20; expected int21 or wider in "
        "acc, such as by memories.acc.element=int21, or an instruction that adds up pieces of sums, `sum(a)` with `a` "
        "in acc"
    )
    assert compile_model(model, load_machine("base16", ["memories.acc.element=int21"])).instructions


def test_a_layer_whose_sums_may_overflow_runs_on_the_host_and_says_so() -> None:
    import tilewright

    model = product([with_sum(LEAST // -128 + 1)])
    program = tilewright.compile(model, load_machine("base16", ["memories.acc.element=int20"]))

    (node,) = [each for each in program.profile()["host_nodes"] if each["op_type"] == "MatMul"]
    assert "its sums may reach -524,416 to 520,319, and mma leaves int20" in node["reason"]
    np.testing.assert_array_equal(program.run(extremes(36)).outputs["y"], run_onnx(model, extremes(36))["y"])


def integer_product(terms: int) -> onnx.ModelProto:
    weights = np.random.default_rng(0).integers(-128, 128, (terms, 20)).astype(np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="product")],
        "integers",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [2, terms])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [2, 20])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_int32_results_lie_in_narrower_accumulators_of_as_many_bytes() -> None:
    model = integer_product(24)
    program = compile_model(model, load_machine("base16", ["memories.acc.element=int20"]))

    np.testing.assert_array_equal(simulated(program, extremes(24))["y"], run_onnx(model, extremes(24))["y"])


def test_int32_results_that_accumulators_may_not_hold_are_refused() -> None:
    with pytest.raises(CompileError) as error:
        compile_model(integer_product(600), load_machine("base16", ["memories.acc.element=int20"]))
    assert "its sums may reach -5174819 to 5174866; expected -524288 to 524287, all that int20" in str(error.value)


@pytest.mark.parametrize("total", [300, -300])
def test_a_bias_may_be_wider_than_a_sum(total: int) -> None:
    """Only what the array leaves must fit: a bias is added where sums become activations."""
    model = product([[3] * 36, [-2] * 36], 2.0**20)
    bias = numpy_helper.from_array(np.array([total << 20, -total << 20], np.int32), "b")
    model.graph.initializer.append(bias)
    reals = helper.make_node("DequantizeLinear", ["b", "one"], ["b.real"])
    model.graph.node.insert(0, reals)
    model.graph.node[3].output[0] = "product"
    model.graph.node.insert(4, helper.make_node("Add", ["product", "b.real"], ["total"]))
    machine = load_machine("base16", ["memories.acc.element=int20"])
    results = simulated(compile_model(model, machine), extremes(36))

    np.testing.assert_array_equal(results["y"], run_onnx(model, extremes(36))["y"])


@pytest.mark.parametrize("name", slow_beyond(1, ("digits", "resnet8")))
def test_networks_with_sums_of_24_bits_are_the_same_programs(name: str) -> None:
    wide, narrow = (compile_model(network(name), load_machine("base16", said)) for said in ((), NARROW))

    assert narrow.text == wide.text and narrow.weights == wide.weights


NARROW = ("memories.acc.element=int24",)


@pytest.mark.slow
@pytest.mark.parametrize("element", ["int20", "int24", "int40"])
def test_extreme_sums_are_the_simulators_on_the_hardware(element: str) -> None:
    machine = load_machine("base16", [*SMALL, f"memories.acc.element={element}"])
    model = product([with_sum(LEAST // -128), with_sum(7), [-each for each in with_sum(4000)], with_sum(0), [3] * 36])
    program = compile_model(model, machine)
    runs = [extremes(36), random_inputs(model, np.random.default_rng(0))]
    jobs = [(program, host.dram_image(program, inputs), place_regions(program.limits)) for inputs in runs]

    assert_equal(machine, jobs, range(len(jobs)))
