"""Activations of sixteen bits: on the machine that has them, on the others, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from numpy.random import Generator
from onnx import helper

import tilewright.onnx_backend as backend
from tests.compiler.models import (
    ModelBuilder,
    conv_model,
    random_inputs,
    residual_model,
    run_onnx,
    small_cnn,
)
from tests.compiler.pipelines import simulated
from tests.compiler.wide_activations import meaning, with_wide_activations
from tests.rings import slow_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.errors import CompileError
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import place_regions
from tilewright.program import Program

MACHINE = load_machine("base16-a16")

MOST_APART, LEAST_EQUAL = 1, 0.999
"""Steps between a layer's result and what its file means, and the share of results that are equal."""

LEAST_EQUAL_OF_FUNCTION = 0.998
"""Of a function: the polynomials are fitted to what it gives in float32, and compared here with float64."""

NETWORKS: dict[str, Callable[[Generator], onnx.ModelProto]] = {
    "conv": lambda rng: conv_model(rng, 16, 20, 12, pads=[1, 1, 1, 1]),
    "many channels": lambda rng: conv_model(rng, 300, 40, 8, relu=True),
    "dilated, strides": lambda rng: conv_model(rng, 5, 33, 15, stride=2, dilations=2, bias="float"),
    "depthwise": lambda rng: conv_model(rng, 32, 32, 12, group=32),
    "sum": lambda rng: residual_model(rng, 24, 12),
    "sum without relu": lambda rng: residual_model(rng, 24, 12, relu=False),
}


def apart(model: onnx.ModelProto, seed: int) -> np.ndarray:
    """How many steps each result is from what the file means."""
    program = compile_model(model, MACHINE)
    found = []
    for number in range(4):
        inputs = random_inputs(model, np.random.default_rng([seed, number]))
        results, meant = simulated(program, inputs), meaning(model, inputs)
        found += [np.rint((results[t.name] - meant[t.name]) / t.scale).ravel() for t in program.outputs]
    return np.abs(np.concatenate(found))


@pytest.mark.parametrize("element", ["int16", "uint16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_results_are_what_the_file_means(network: str, element: str) -> None:
    seed = list(NETWORKS).index(network)
    steps = apart(with_wide_activations(NETWORKS[network](np.random.default_rng(seed)), element), seed)
    assert steps.max() <= MOST_APART
    assert np.mean(steps == 0) >= LEAST_EQUAL


@pytest.mark.parametrize("element", ["int16", "uint16"])
def test_a_classifier_of_eight_layers_is_a_step_away_at_most(element: str) -> None:
    steps = apart(with_wide_activations(small_cnn(np.random.default_rng(6)), element), 6)
    assert steps.max() <= MOST_APART
    assert np.mean(steps == 0) >= 0.95


def function_model(kind: str, reach: float, low: float, high: float) -> onnx.ModelProto:
    """A function of every value of 16 bits, from -reach to reach, with results from low to high."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 16, 64, 64]), reach / 128, 0, name="x.q")
    scale = (high - low) / 255
    zero = int(np.clip(round(-128 - low / scale), -128, 127))
    builder.output(builder.quantize(builder.node(kind, [x], name="function"), scale, zero, name="y.q"))
    return with_wide_activations(builder.build(opset=20))


FUNCTIONS = {
    "Sigmoid": (8, 0, 1),
    "Tanh": (4, -1, 1),
    "Gelu": (6, -0.2, 6),
    "Exp": (4, 0, 55),
    "Erf": (3, -1, 1),
    "Softplus": (8, 0, 8),
    "Mish": (6, -0.4, 6),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_are_what_the_file_means(kind: str) -> None:
    model = function_model(kind, *FUNCTIONS[kind])
    program = compile_model(model, MACHINE)
    (x,), (y,) = program.inputs, program.outputs
    inputs = {"x": (np.arange(-(1 << 15), 1 << 15).reshape(x.shape) * x.scale).astype(np.float32)}
    steps = np.abs(np.rint((simulated(program, inputs)["result"] - meaning(model, inputs)["result"]) / y.scale))
    assert steps.max() <= MOST_APART
    assert np.mean(steps == 0) >= LEAST_EQUAL_OF_FUNCTION
    assert program.metadata["function of function"].startswith("in 128 pieces: of 65,536 values, ")


def test_a_function_that_polynomials_do_not_meet_is_refused() -> None:
    with pytest.raises(CompileError, match=r"its function in 128 pieces is up to \d+ steps off; expected 1 at most"):
        compile_model(function_model("Sign", 4, -1, 1), MACHINE)


def test_bits_are_those_of_a_machine_of_eight_bits_for_such_a_file() -> None:
    model = small_cnn(np.random.default_rng(4))
    inputs = random_inputs(model, np.random.default_rng(1))
    narrow, wide = (simulated(compile_model(model, load_machine(name)), inputs) for name in ("base16", "base16-a16"))
    for name, values in narrow.items():
        np.testing.assert_array_equal(values, wide[name])


@pytest.mark.parametrize("element", ["int16", "uint16"])
def test_a_machine_of_eight_bits_leaves_them_to_the_host_and_says_why(element: str) -> None:
    model = with_wide_activations(conv_model(np.random.default_rng(3), 16, 20, 6), element)
    with pytest.raises(CompileError) as error:
        compile_model(model, load_machine("base16"))
    assert str(error.value).endswith(
        f"an activation is {element}; expected int8 or uint8. take a machine whose activations hold {element}"
    )


def test_only_layers_of_sixteen_bits_are_the_hosts() -> None:
    """The first convolution has eight bits, the second sixteen."""
    model = small_cnn(np.random.default_rng(3))
    wide = with_wide_activations(model)
    values = {t.name: onnx.numpy_helper.to_array(t) for t in wide.graph.initializer}
    narrow = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for name in ("image.q.scale", "image.q.zero", "conv1.q.scale", "conv1.q.zero"):
        if name in narrow:
            values[name] = narrow[name]
    del wide.graph.initializer[:], wide.graph.value_info[:]
    wide.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in values.items())
    wide = onnx.shape_inference.infer_shapes(wide)
    made = compile_partitioned(wide, load_machine("base16"))
    assert isinstance(made, Partitioned)
    assert any("int16" in node.reason for node in made.host_nodes)
    assert made.programs


def test_weights_of_sixteen_bits_are_refused() -> None:
    model = with_wide_activations(conv_model(np.random.default_rng(3), 16, 20, 6))
    for tensor in model.graph.initializer:
        if tensor.name in ("conv.weight", "conv.weight_zero"):
            wide = onnx.numpy_helper.to_array(tensor).astype(np.int16) * 200
            tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
    del model.graph.value_info[:]
    with pytest.raises(CompileError, match="its weights are int16, and those of the machine are int8"):
        compile_model(onnx.shape_inference.infer_shapes(model), MACHINE)


def test_a_program_comes_back_from_its_file_and_its_text() -> None:
    model = with_wide_activations(conv_model(np.random.default_rng(3), 16, 20, 6), "uint16")
    program = compile_model(model, MACHINE)
    assert {tensor.held for tensor in (*program.inputs, *program.outputs)} == {"int16"}
    again = from_bytes(to_bytes(program), "again", MACHINE)
    assert (again.inputs, again.outputs) == (program.inputs, program.outputs)
    text = disassemble(program)
    assert " held=int16 " in text
    read = assemble(text, MACHINE)
    assert (read.inputs, read.outputs) == (program.inputs, program.outputs)


def test_onnx_runtime_is_a_step_away_at_most() -> None:
    """It computes in float32, which does not hold the sums."""
    model = with_wide_activations(conv_model(np.random.default_rng(3), 300, 20, 6))
    inputs = random_inputs(model, np.random.default_rng(1))
    program = compile_model(model, MACHINE)
    steps = (simulated(program, inputs)["result"] - run_onnx(model, inputs)["result"]) / program.outputs[0].scale
    assert np.abs(np.rint(steps)).max() <= MOST_APART


@pytest.mark.slow
def test_networks_are_the_simulators_on_the_hardware() -> None:
    small = load_machine("base16-a16", ["array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4"])
    jobs = []
    for seed, model in enumerate((
        with_wide_activations(conv_model(np.random.default_rng(1), 5, 12, 6)),
        with_wide_activations(residual_model(np.random.default_rng(2), 6, 5), "uint16"),
        function_model("Sigmoid", 8, 0, 1),
    )):  # fmt: skip
        program = compile_model(model, small)
        image = dram_image(program, random_inputs(model, np.random.default_rng(seed)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(small, jobs, range(len(jobs)))


@pytest.mark.parametrize(("name", "rows"), [("base16-a16", 40), ("mixed16", 3)])
def test_sums_of_32_bits_leave_a_machine_of_wider_ones(name: str, rows: int) -> None:
    """ONNX's MatMulInteger: int32 results, exact, where sums are int40."""
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((rows, 70), (70, 21)))
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    prepared = backend.prepare(backend.model_of_node(node, [a, b], 17), isa=name)
    (found,) = prepared.run([a, b])
    network = prepared.network([a, b])
    assert isinstance(network, Program) and network.host_nodes == ()
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def test_sums_that_32_bits_do_not_hold_are_the_hosts() -> None:
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    b = np.full((70_000, 1), -128, np.int8)
    a = np.full((1, 70_000), 127, np.int8)
    model = backend.with_constants(backend.model_of_node(node, [a, b], 17), {"b": b})
    found = compile_partitioned(model, MACHINE)
    assert isinstance(found, Partitioned) or not found.instructions
    assert "its sums may reach" in found.host_nodes[0].reason


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", slow_beyond(1, ["Sigmoid", "Tanh", "Exp", "LeakyRelu", "HardSwish"]))
def test_functions_of_bytes_are_exact(kind: str, activation: type) -> None:
    """Every value of eight bits; nothing is the host's."""
    builder = ModelBuilder(np.random.default_rng(1), activation=activation)
    x = builder.quantize(builder.input("x", [1, 16, 4, 4]), 0.05)
    builder.output(builder.quantize(builder.node(kind, [x]), 0.02))
    model = builder.build()
    program = compile_model(model, MACHINE)
    inputs = {"x": np.linspace(-13, 13, 256, dtype=np.float32).reshape(1, 16, 4, 4)}
    found, meant = simulated(program, inputs), run_onnx(model, inputs)
    np.testing.assert_array_equal(found["result"], meant["result"])
    assert "lookup" in {each.mnemonic for each in program.instructions} and len(np.unique(meant["result"])) > 20
