"""Weights of uint8 with any zero point, on machines that hold them less it: none is split, and no term is shared."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.pipelines import simulated
from tests.rings import slow_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions

NINE = ("memories.wgt.element=int9", "memories.wgt.kib=256")
"""As many words as base16 has: an element of nine bits takes two bytes."""

EIGHT = ("memories.wgt.element=uint8",)

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=8")
"""Hardware that is built sooner."""

UNSIGNED = ("memories.act.element=uint8", "memories.lut.element=uint8")

FAST = Options(effort=0)


def asymmetric(zero: int, activation: type = np.int8, channels: int = 16) -> onnx.ModelProto:
    """A convolution with uint8 weights of all values, and one zero point."""
    model = conv_model(np.random.default_rng(3), channels, 24, 9, activation=activation)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    (reader,) = [node for node in model.graph.node if node.input[0] == "conv.weight"]
    codes = (numpy_helper.to_array(constants["conv.weight"]).astype(np.int64) + 128).astype(np.uint8)
    zeros = np.full(constants[reader.input[2]].dims, zero, np.uint8)
    for name, values in (("conv.weight", codes), (reader.input[2], zeros)):
        constants[name].CopyFrom(numpy_helper.from_array(values, name))
    return model


def vectors(program: Program) -> int:
    """How many vectors the array takes."""
    return sum(
        int(np.prod(list(each.trips.values()))) for each in program.instructions if each.mnemonic.startswith("mma")
    )


@pytest.mark.parametrize("zero", slow_beyond(2, (120, 0, 128, 255)))
@pytest.mark.parametrize("activation", [np.int8, np.uint8])
def test_any_zero_point_takes_as_many_vectors_as_none(zero: int, activation: type) -> None:
    model = asymmetric(zero, activation)
    program = compile_model(
        model, load_machine("base16", [*NINE, *UNSIGNED][: 2 if activation is np.int8 else 4]), FAST
    )
    usual = compile_model(asymmetric(128, activation), load_machine("base16"), FAST)
    assert vectors(program) == vectors(usual)
    inputs = random_inputs(model, np.random.default_rng(0))
    for name, values in run_onnx(model, inputs).items():
        np.testing.assert_array_equal(simulated(program, inputs)[name], values)


def test_codes_without_a_zero_point_are_stored_as_they_are() -> None:
    model = asymmetric(0)
    program = compile_model(model, load_machine("base16", EIGHT), FAST)
    inputs = random_inputs(model, np.random.default_rng(0))
    for name, values in run_onnx(model, inputs).items():
        np.testing.assert_array_equal(simulated(program, inputs)[name], values)


def test_codes_below_their_zero_point_need_a_sign() -> None:
    with pytest.raises(CompileError, match=r"weights below 0, less their zero points.*: int9 holds both"):
        compile_model(asymmetric(3), load_machine("base16", EIGHT), FAST)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [NINE, EIGHT], ids=["int9", "uint8"])
def test_programs_are_the_simulators_on_the_hardware(settings: tuple[str, ...]) -> None:
    machine = load_machine("base16", [*SMALL, *settings])
    model = asymmetric(0 if settings == EIGHT else 77, channels=6)
    program = compile_model(model, machine)
    image = dram_image(program, random_inputs(model, np.random.default_rng(0)))
    assert_equal(machine, [(program, image, place_regions(program.limits))], range(1))
