"""Softmax, normalisation and products of computed tensors with activations of int16, against ONNX's definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from programs.networks.registry import float_network
from tests.compiler.masks import causal, masked_model
from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import simplified, simulated
from tests.compiler.wide_activations import meaning, with_wide_activations
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.normalize_format import normalize_format
from tilewright.compiler.lower.reciprocal_root import reciprocal_root
from tilewright.compiler.lower.softmax_format import LeadingBits, LowBits, TableFormat, softmax_format
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_integer_type
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import Program, place_regions
from tilewright.quantization.quantize import quantize

NAME = "sequence16-a16"

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4", "memories.act.kib=4", "memories.acc.kib=8")
"""Hardware that is built sooner."""

STEP = 1 / 65535
"""A share of a softmax takes the whole range."""


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine(NAME)


def built(builder: ModelBuilder) -> onnx.ModelProto:
    model = builder.build(opset=23)
    model.ir_version = 10
    return model


def softmax(shape: Sequence[int], axis: int, scale: float) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(0), activation=np.int16)
    x = builder.quantize(builder.input("x", shape), scale, 3, name="x.q")
    y = builder.node("Softmax", [x], name="softmax", axis=axis)
    builder.output(builder.quantize(y, STEP, -32768, name="y.q"))
    return built(builder)


def normalization(kind: str, shape: Sequence[int], scale: float) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    builder = ModelBuilder(rng, activation=np.int16)
    x = builder.quantize(builder.input("x", shape), scale, 300, name="x.q")
    parameters = [builder.constant("scale", rng.normal(1, 0.5, shape[-1]).astype(np.float32))]
    if kind == "LayerNormalization":
        parameters.append(builder.constant("bias", rng.normal(0, 0.5, shape[-1]).astype(np.float32)))
    y = builder.node(kind, [x, *parameters], name="norm", axis=-1, epsilon=1e-5)
    builder.output(builder.quantize(y, 3e-4, -50, name="y.q"))
    return built(builder)


def product(is_turned: bool, zero: int = 0) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(0), activation=np.int16)
    a = builder.quantize(builder.input("a", (1, 20, 16)), 1e-4, zero, name="a.q")
    b = builder.quantize(builder.input("b", (1, 32, 16) if is_turned else (1, 16, 32)), 1e-4, 0, name="b.q")
    b = builder.node("Transpose", [b], name="turned", perm=[0, 2, 1]) if is_turned else b
    builder.output(builder.quantize(builder.node("MatMul", [a, b], name="product"), 5e-4, 0, name="y.q"))
    return built(builder)


def apart(model: onnx.ModelProto, machine: Machine, inputs: dict[str, NDArray[np.float32]]) -> NDArray[np.float64]:
    """Steps from the definition, on the machine alone; the nests' results are the machine's."""
    program = compile_model(model, machine)
    found = simulated(program, inputs)["result"]
    np.testing.assert_array_equal(run_nests(lower(simplified(model), machine), inputs)["result"], found)
    return np.abs(np.rint((found - meaning(model, inputs)["result"]) / program.outputs[0].scale)).ravel()


def test_the_machines_tables_are_read_off_its_statements(machine: Machine) -> None:
    found = softmax_format(machine, arithmetic_of(machine))
    uint8, uint16, uint25 = map(parse_integer_type, ("uint8", "uint16", "uint25"))
    assert (found.exponentials, found.low_bits) == (
        TableFormat(uint25, uint16),
        LowBits(TableFormat(uint25, uint8), 25),
    )
    assert found.unit == 2**25 - 2  # the product of two entries of 2**25 - 1, over 2**25
    assert found.reciprocal == parse_integer_type("uint31")  # and not what `lookup` multiplies with


def test_sums_of_squares_are_wrapped_and_moved_as_its_statements_say(machine: Machine) -> None:
    found = normalize_format(machine, softmax_format(machine, arithmetic_of(machine)), arithmetic_of(machine))
    assert (found.fraction, found.square, found.magnitude) == (
        11,
        parse_integer_type("uint39"),
        parse_integer_type("uint39"),
    )
    assert found.most_moved == 12  # 39 bits and twice so many are 63
    assert found.packed == LeadingBits(6, parse_integer_type("uint25"))  # of a root, above how far it is shifted


def test_roots_are_a_128th_of_a_step_exact_in_the_finer_type(machine: Machine) -> None:
    """One Newton step is enough for activations of eight bits."""
    arithmetic = arithmetic_of(machine)
    root = reciprocal_root(normalize_format(machine, softmax_format(machine, arithmetic), arithmetic))
    magnitudes = np.linspace(2**37, 2**39 - 1, 9973).astype(np.int64)
    error = np.abs(root.values(magnitudes) * np.sqrt(magnitudes) / root.unit - 1).max()
    assert error <= 1 / 128 / 65536


@pytest.mark.parametrize(
    ("shape", "axis", "scale"),
    [((300, 10), 1, 3e-4), ((2, 37, 4, 3), 1, 3e-4), ((4, 1000), 1, 1e-5), ((2, 24, 33), 2, 2e-3)],
    ids=str,
)
def test_a_softmax_is_within_a_step_and_nearly_all_equal(
    machine: Machine, shape: Sequence[int], axis: int, scale: float
) -> None:
    """With tables of 23 bits, and reciprocals four millionths too small, 99.7% of the first one's were equal."""
    steps = [
        apart(softmax(shape, axis, scale), machine, {"x": scores.astype(np.float32)})
        for scores in (np.random.default_rng(1).normal(0, spread * scale, shape) for spread in (3e3, 1e4))
    ]
    assert np.concatenate(steps).max() <= 1
    assert (np.concatenate(steps) == 0).mean() >= 0.999


def test_a_masked_softmax_is_within_a_step(machine: Machine) -> None:
    model = with_wide_activations(masked_model((1, 2, 9, 9), causal(9)))
    inputs = random_inputs(model, np.random.default_rng(5))
    program = compile_model(model, machine)
    assert "sum_kept" in {each.mnemonic for each in program.instructions}
    found, meant = simulated(program, inputs)["result"], run_onnx(model, inputs)["result"]
    assert np.abs(np.rint((found - meant) / program.outputs[0].scale)).max() <= 1
    assert np.unique(meant).size > 50


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize(
    ("shape", "deviation"),
    [((1, 32, 64), 1 / 13), ((1, 64, 20), 1 / 13), ((1, 16, 288), 1 / 13), ((1, 16, 288), 1 / 64)],
    ids=str,
)
def test_rows_are_normalised_within_a_step_and_nearly_all_equal(
    machine: Machine, kind: str, shape: tuple[int, ...], deviation: float
) -> None:
    """`deviation` in parts of the range of the type."""
    x = np.random.default_rng(1).normal(0.3, 1, shape) * deviation * 65536 * 2e-4
    steps = apart(normalization(kind, shape, 2e-4), machine, {"x": x.astype(np.float32)})
    assert steps.max() <= 1
    assert (steps == 0).mean() >= 0.999


def test_a_row_nearly_constant_beside_the_others_is_within_a_step(machine: Machine) -> None:
    """A step of its operand is 33 steps of its result there, and the mean is rounded to 1 / 2,048 of one."""
    x = np.random.default_rng(1).normal(0.3, 1 / 650 * 65536 * 2e-4, (1, 16, 288)).astype(np.float32)
    steps = apart(normalization("LayerNormalization", x.shape, 2e-4), machine, {"x": x})
    assert steps.max() <= 1
    assert (steps == 0).mean() >= 0.99


@pytest.mark.parametrize(("is_turned", "zero"), [(False, 0), (True, 0), (False, -32768)])
def test_products_of_computed_tensors_are_exact(machine: Machine, is_turned: bool, zero: int) -> None:
    """Shares of a softmax have the least zero point: less than any number that a vector holds."""
    model = product(is_turned, zero)
    assert apart(model, machine, random_inputs(model, np.random.default_rng(2))).max() == 0


@pytest.mark.slow
def test_a_transformer_needs_no_host() -> None:
    model = quantize(float_network("kwt-1"), "random", activations="int16").model
    assert isinstance(compile_partitioned(model, load_machine(NAME), Options(effort=0)), Program)


@pytest.mark.parametrize("scale", [2e-4, 2.0], ids=["of a large epsilon", "of hardly any"])
def test_without_such_instructions_they_are_the_hosts(scale: float) -> None:
    """An accumulator of 40 bits with its bias, times a scale of 24, would not fit a statement.

    Nor would one whose leading bits move up at once, if epsilon leaves all of them free.
    """
    found = compile_partitioned(normalization("RMSNormalization", (1, 4, 64), scale), load_machine("base16-a16"))
    assert isinstance(found, Partitioned)
    (reason,) = {node.reason for node in found.host_nodes if node.name == "norm"}
    assert "lanes_sum" in reason


@pytest.mark.long
def test_the_simulator_is_the_hardware() -> None:
    machine = load_machine(NAME, SMALL)
    models = [softmax((1, 7, 2, 2), 1, 3e-4), normalization("LayerNormalization", (1, 3, 10), 2e-4), product(True)]
    jobs = []
    for model in models:
        program = compile_model(model, machine)
        image = dram_image(program, random_inputs(model, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(machine, jobs, range(len(jobs)))
