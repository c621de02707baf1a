"""No program that the compiler makes takes fewer cycles than the bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from tests.compiler.models import conv_model
from tilewright.codesign.bounds.least_cycles import least_cycles, products_a_cycle
from tilewright.codesign.bounds.needs import Needs, needs_of
from tilewright.codesign.points.evaluate import NetworkFigures, evaluate
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.templates.vector import terms
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template

DIGITS = Path("programs/digits/digits_int8.onnx")


@pytest.mark.parametrize("isa", ["tiny8", "base16", "rect", "vector16", "wide32", "vector-only"])
@pytest.mark.parametrize("bus", [1, 16])
def test_no_program_of_dense_weights_is_faster(isa: str, bus: int) -> None:
    machine = load_machine(isa, (f"dram.bus_bytes={bus}",))
    figures = evaluate(read_network(DIGITS), machine, effort=0)
    assert isinstance(figures, NetworkFigures) and figures.host_nodes == 0
    assert 0 < least_cycles(needs_of(read_network(DIGITS), arithmetic_of(machine).weight), machine) <= figures.cycles


def test_no_program_of_a_network_with_pruned_channels_is_faster() -> None:
    """Three quarters of the channels that are read have no weights: the compiler leaves them out."""
    model = conv_model(np.random.default_rng(1), 64, 64, 16, 3, pads=[1, 1, 1, 1])
    [tensor] = [tensor for tensor in model.graph.initializer if tensor.name == "conv.weight"]
    values = numpy_helper.to_array(tensor).copy()
    values[:, 16:] = 0
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    network = Network("pruned", model.SerializeToString())
    machine = load_machine("tiny8", ("array.rows=16", "array.cols=16"))
    figures = evaluate(network, machine, effort=0)
    assert isinstance(figures, NetworkFigures) and not figures.host_nodes
    needs = needs_of(network, arithmetic_of(machine).weight)
    assert 0.5 * figures.cycles < least_cycles(needs, machine) <= figures.cycles
    assert least_cycles(Needs(figures.macs, 0), machine) > figures.cycles  # with the products of zeros


def test_an_array_counts_with_the_multipliers_beside_it() -> None:
    machine = load_machine("tiny8")
    a_cycle = products_a_cycle(machine)
    places = machine.array.rows * machine.array.cols
    assert places <= a_cycle <= places + 6 * machine.lanes
    assert least_cycles(Needs(10 * a_cycle + 1, 0), machine) == 11
    assert least_cycles(Needs(0, 10 * machine.dram.bus_bytes + 1), machine) == 11


@pytest.mark.parametrize(("mnemonic", "count"), [("requantize", 2), ("max_pool", 1), ("add", 2), ("copy", 1)])
def test_terms_are_those_of_the_statement_multiplied_out(mnemonic: str, count: int) -> None:
    assert terms(load_machine("tiny8").format(mnemonic).statement.expr)[0] == count


@pytest.mark.parametrize(("mnemonic", "count"), [("multiply", 1), ("multiply_add", 2)])
def test_a_dot_product_is_one_product_of_each_row(mnemonic: str, count: int) -> None:
    assert terms(load_machine("vector-only").format(mnemonic).statement.expr)[0] == count


def test_taps_of_one_iteration_are_as_many_products() -> None:
    machine = load_machine("dw16")
    found = [
        (terms(format.statement.expr)[0], streams[0].block)
        for format in machine.formats_of(Template.VECTOR)
        if (streams := format.streams) and streams[0].block > 1
    ]
    assert found
    assert all(count >= taps for count, taps in found)
