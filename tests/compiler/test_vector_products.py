"""Products in the vector engine: whole networks on a machine without an array, its cuts, and what it leaves alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import tilewright
from programs.networks.registry import int8_network
from tests.compiler.models import conv_model, gemm_model, random_inputs, run_onnx
from tests.compiler.pipelines import distances, simplified, simulated
from tests.compiler.select.test_why_not import verdicts
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.why_not import CoverOutcome
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

MACHINE = load_machine("vector-only")
SMALL = load_machine("vector-only", ["memories.wgt.kib=2", "memories.act.kib=4", "memories.acc.kib=4"])
NEVER_ADDS = load_machine_text("extends: vector-only\ninstructions: {multiply_add: null}\n", "never.yaml")
RNG = np.random.default_rng(4)

MODELS = {
    "whole words": conv_model(RNG, 16, 16, 8),
    "odd channels": conv_model(RNG, 5, 11, 9),
    "depthwise": conv_model(RNG, 16, 16, 8, group=16),
    "many channels": conv_model(RNG, 200, 9, 4),
    "dense": gemm_model(RNG),
}


def compiled(model: onnx.ModelProto, machine: Machine) -> Program:
    return compile_model(model, machine, Options(effort=0))


def products(program: Program) -> Counter[str]:
    """How often each instruction that multiplies is used."""
    multiplying = (each.mnemonic for each in program.instructions if each.format.statement.dot is not None)
    return Counter(multiplying)


@pytest.mark.parametrize("machine", [MACHINE, SMALL, NEVER_ADDS], ids=["whole", "small memories", "one part a sum"])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_is_that_of_onnx_runtime(name: str, machine: Machine) -> None:
    program = compiled(MODELS[name], machine)

    assert products(program)["multiply"] > 0
    assert distances(MODELS[name], lambda inputs: simulated(program, inputs), 2).max() <= 1


def test_a_network_needs_no_host_and_is_bit_equal() -> None:
    model = int8_network("resnet8")

    program = tilewright.compile(model.SerializeToString(), "vector-only", effort=0)

    inputs = random_inputs(model, np.random.default_rng(2))
    nests = lower(simplified(model), load_machine("tiny8"))
    expected, onnx_runtime = run_nests(nests, inputs), run_onnx(model, inputs)
    found = program.run(inputs).outputs
    assert not program.host_nodes
    for name in expected:
        assert np.array_equal(found[name], expected[name])
        assert np.array_equal(found[name], onnx_runtime[name])


def test_sums_of_many_channels_are_added_in_parts() -> None:
    """200 channels in words of 8 are 25 tiles for each of 9 taps, of which a small memory holds few."""
    model = MODELS["many channels"]

    assert products(compiled(model, SMALL))["multiply_add"] > products(compiled(model, MACHINE))["multiply_add"] > 0
    assert set(products(compiled(model, NEVER_ADDS))) == {"multiply"}


def test_what_adds_to_sums_says_why_it_is_not_chosen() -> None:
    found = [each for each in verdicts(MODELS["whole words"], MACHINE) if each.instruction == "multiply_add"]

    assert {(each.kind, each.text) for each in found} == {
        (CoverOutcome.UNBOUND, "its `b` are sums that another instruction has begun")
    }


def test_the_engine_is_as_busy_as_the_products_take() -> None:
    """8 products a cycle, and what fills the last tiles and the padding of the first layer: a tenth at the most."""
    program = compiled(int8_network("resnet8"), MACHINE)
    macs = sum(layer.macs for layer in program.layers)

    cycles = simulate_cycles(program, place_regions(program.limits)).cycles

    assert macs / MACHINE.lanes <= cycles <= 1.1 * macs / MACHINE.lanes
