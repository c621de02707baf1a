"""What docs/types.md says of several types in one machine is so: its file, all pairs of types, and its hardware."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.compiler.models import ModelBuilder, add_conv, conv_model, random_inputs
from tests.compiler.narrow_weights import with_narrow_weights
from tests.compiler.pipelines import simulated
from tests.compiler.wide_activations import meaning, with_wide_activations
from tests.test_simulator_equals_rtl import assert_equal
from tests.types import PAGE, curve_rows, pair_rows, tables
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import place_regions

NAME = "mixed16"

PAIRS = [("int8", "int8", "mma"), ("int4", "int8", "mma_w4"), ("int8", "int16", "mma"), ("int4", "int16", "mma_w4")]
"""Weights, activations, and the instruction that multiplies them."""

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""


def test_the_page_shows_the_file_that_ships() -> None:
    (shown,) = re.findall(rf"```yaml\n(# {NAME}\.yaml\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert load_machine_text(shown, NAME).text == load_machine(NAME).text


def test_the_page_shows_the_cycles_of_each_pair() -> None:
    assert [*pair_rows()] in tables()


@pytest.mark.slow
def test_the_page_shows_what_a_result_of_eight_bits_takes_from_the_host() -> None:
    assert [*curve_rows()] in tables()


def of_types(weights: str, activations: str, channels: int = 24, size: int = 7) -> onnx.ModelProto:
    """A convolution with results that fill more than a tile of int8."""
    model = conv_model(np.random.default_rng(channels), channels, 33, size)
    if activations == "int16":
        model = with_wide_activations(model)
    return with_narrow_weights(model) if weights == "int4" else model


@pytest.mark.parametrize(("weights", "activations", "product"), PAIRS)
def test_each_pair_is_multiplied_exactly_by_an_instruction(weights: str, activations: str, product: str) -> None:
    """At most a step from what the file means in float64, and hardly ever one."""
    model = of_types(weights, activations)
    program = compile_model(model, load_machine(NAME))
    assert {each.mnemonic for each in program.instructions if "mma" in each.mnemonic} == {product}
    apart = []
    for seed in range(3):
        inputs = random_inputs(model, np.random.default_rng(seed))
        results, meant = simulated(program, inputs), meaning(model, inputs)
        apart += [np.rint((results[t.name] - meant[t.name]) / t.scale).ravel() for t in program.outputs]
    steps = np.abs(np.concatenate(apart))
    assert steps.max() <= 1 and np.mean(steps == 0) >= 0.999


def layers_of_both() -> onnx.ModelProto:
    """Three convolutions: results of 16 bits, of 8, and of 16 again; the weights of the second fit four bits."""
    builder = ModelBuilder(np.random.default_rng(4), activation=np.int16)
    x = builder.quantize(builder.input("x", [1, 8, 9, 9]), 1e-3)
    x = add_conv(builder, x, 8, 24, scale_in=1e-3, scale_out=1e-3 / 256, name="first")
    builder.activation = np.dtype(np.int8)
    x = add_conv(builder, x, 24, 40, scale_in=1e-5, scale_out=1e-4, name="second")
    builder.activation = np.dtype(np.int16)
    builder.output(add_conv(builder, x, 40, 8, scale_in=1e-4, scale_out=3e-5, name="third"))
    model = builder.build(opset=21)
    model.ir_version = 10
    (held,) = [tensor for tensor in model.graph.initializer if tensor.name == "second.weight"]
    held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) // 16, held.name))
    return model


def test_one_network_has_activations_of_both_types() -> None:
    model = layers_of_both()
    program = compile_model(model, load_machine(NAME))
    of_layers = {
        program.layers[layer].name: instruction.mnemonic
        for instruction, layer in zip(program.instructions, program.provenance, strict=True)
        if "mma" in instruction.mnemonic
    }
    assert of_layers == {"first": "mma", "second": "mma_w4", "third": "mma"}
    inputs = random_inputs(model, np.random.default_rng(0))
    results, meant = simulated(program, inputs), meaning(model, inputs)
    (output,) = program.outputs
    values = meant[output.name]
    assert np.abs(np.rint((results[output.name] - values) / output.scale)).max() <= 1
    assert np.unique(values).size > 50


def test_other_machines_say_what_they_leave_to_the_host() -> None:
    found = compile_partitioned(layers_of_both(), load_machine("base16-w4"))
    assert isinstance(found, Partitioned)
    assert {node.name for node in found.host_nodes} >= {"first", "third"}


@pytest.mark.slow
def test_networks_are_the_simulators_on_the_hardware() -> None:
    machine = load_machine(NAME, SMALL)
    jobs = []
    for model in (*(of_types(w, a, 5, 6) for w, a, _ in PAIRS), layers_of_both()):
        program = compile_model(model, machine)
        image = dram_image(program, random_inputs(model, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(machine, jobs, range(len(jobs)))
