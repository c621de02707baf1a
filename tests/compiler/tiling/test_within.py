"""Tiles of products that are computed in their readers' tiles: the bits of ONNX Runtime, on machines of all shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.accumulator_networks import FROM_ACCUMULATORS, FUSED, cycles, from_accumulators, pooled, projection
from tests.compiler.machines import SHAPES, without
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import distances, simulated
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, resume
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

MODELS = {
    "two convolutions": (projection(), "requantize_add_two"),
    "two of odd sizes": (projection(9, 24, 40, relu=False), "requantize_add_two"),
    "windows": (pooled(), "requantize_pool"),
    "windows of odd sizes": (pooled(11, 40, 24, 3, 3), "requantize_pool"),
    "windows with gaps": (pooled(9, 16, 20, 2, 3), "requantize_pool"),
}


def shaped(name: str, folder: str) -> Machine:
    """A machine of another shape, with the instructions."""
    base, overrides = SHAPES[name]
    path = f"{folder}/fused.yaml"
    with open(path, "w") as file:
        file.write(FROM_ACCUMULATORS.replace("base16", base))
    return load_machine(path, overrides)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_are_those_without_the_instruction(name: str, shape: str, tmp_path: object) -> None:
    model, mnemonic = MODELS[name]
    machine = shaped(shape, str(tmp_path))
    program = compile_model(model, machine, Options(effort=0))
    plain = compile_model(model, without(machine, *FUSED), Options(effort=0))
    assert mnemonic in {instruction.mnemonic for instruction in program.instructions}
    inputs = random_inputs(model, np.random.default_rng(0))
    assert np.array_equal(simulated(program, inputs)["result"], simulated(plain, inputs)["result"])


@pytest.mark.parametrize("model", [projection(), pooled()], ids=["projection", "pooled"])
def test_the_values_are_those_of_onnx_runtime_in_fewer_cycles(model: onnx.ModelProto) -> None:
    machine = from_accumulators()
    program = compile_model(model, machine)
    assert distances(model, lambda inputs: simulated(program, inputs)).max() == 0
    assert cycles(model, machine) < cycles(model, without(machine, *FUSED))


def test_its_tensors_may_come_from_dram() -> None:
    model, machine = projection(), from_accumulators()
    options = Options(effort=0, tiling=TilingOptions(residency="none"))
    program = compile_model(model, machine, options)
    inputs = random_inputs(model, np.random.default_rng(0))
    assert "requantize_add_two" in {instruction.mnemonic for instruction in program.instructions}
    expected = simulated(compile_model(model, without(machine, *FUSED), options), inputs)
    assert np.array_equal(simulated(program, inputs)["result"], expected["result"])


def test_the_products_belong_to_the_reader() -> None:
    """Its instructions hold them; 8×8 pixels, 16 to 32 channels, 3×3."""
    layers = compile_model(pooled(), from_accumulators()).layers
    assert [(layer.name, layer.macs) for layer in layers] == [("conv", 0), ("pool", 64 * 16 * 32 * 9)]


@pytest.mark.parametrize("after", ["read-sums", "select"])
def test_the_text_of_a_pass_gives_the_same_program(after: str) -> None:
    texts: dict[str, str] = {}
    options = replace(Options(), effort=0)
    program = compile_model(projection(), from_accumulators(), options, texts.__setitem__)
    again = resume(after, texts[after], from_accumulators(), options)
    assert again.text == program.text
