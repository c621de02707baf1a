"""What docs/types.md says of weights in blocks is so: its tables, its machine's file, and that machine's hardware."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from programs.networks.builder import Builder
from programs.networks.decoder import Decoder, prefill
from programs.networks.registry import float_network
from tests.block_weights import BLOCK_MACHINES, NARROW, cycles, in_blocks, losses, matrix_bytes, row
from tests.compiler.block_models import block_model
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import simulated
from tests.schedules.never_slower import model
from tests.test_simulator_equals_rtl import assert_equal
from tests.types import PAGE
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.quantization.quantize import quantize
from tilewright.values.compare import compare_values
from tilewright.values.compiled import compile_keeping

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""

SMALLER = (*SMALL, "memories.act.kib=4", "memories.acc.kib=8")

WIDE_ACTIVATIONS = BLOCK_MACHINES["int16"]
"""What has activations of sixteen bits, beside weights of four."""


def test_the_page_shows_the_instruction_of_the_machine() -> None:
    (shown,) = (
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "scl:" in text
    )
    machine = load_machine(NARROW)
    own = yaml.safe_load(re.sub(r"(?m)^extends:.*$", "", machine.text)) if "scl" in machine.text else {}
    for part in ("memories", "instructions"):
        for name, entry in shown[part].items():
            assert own[part][name] == entry or {**own[part][name], **entry} == own[part][name]


@pytest.mark.slow
@pytest.mark.parametrize("activations", BLOCK_MACHINES)
def test_the_page_shows_what_the_command_prints(activations: str) -> None:
    assert row("stories260k-step", activations) in PAGE.read_text().splitlines()


@pytest.mark.long
@pytest.mark.parametrize("activations", BLOCK_MACHINES)
def test_the_page_shows_what_the_large_decoder_takes(activations: str) -> None:
    assert row("stories15m-step", activations) in PAGE.read_text().splitlines()


@pytest.mark.long
def test_the_page_shows_what_the_trained_decoder_loses() -> None:
    assert set(losses()) <= set(PAGE.read_text().splitlines())


@pytest.mark.slow
def test_a_decoder_takes_fewer_cycles_and_bytes() -> None:
    wide, narrow = model("stories260k-step"), in_blocks("stories260k-step")
    assert cycles(narrow, NARROW) < cycles(wide, "sequence16")
    assert matrix_bytes(narrow) <= 0.57 * matrix_bytes(wide)


@pytest.mark.slow
def test_products_of_sixteen_bits_are_a_step_off_at_most() -> None:
    """Of 160 activations of int16, the results are compared with the file's meaning in float64."""
    network = block_model(160, 40, activations="int16")
    x = np.random.default_rng(3).normal(scale=100, size=(3, 160)).astype(np.float32)
    program = compile_model(network, load_machine(WIDE_ACTIVATIONS), Options(effort=0))
    (found,) = simulated(program, {"x": x}).values()
    meant = _meaning(network, x)
    step = np.float64(np.float32(0.01 * np.sqrt(5)))
    off = np.rint(found / step) - meant
    assert np.ptp(meant) > 10_000 and np.abs(off).max() <= 1 and (off == 0).mean() >= 0.95


@pytest.mark.slow
def test_every_layer_of_a_network_is_a_step_off_at_most() -> None:
    """Ten products of up to 640 activations of int16, whose zero points are -32,768, as their ranges are."""
    network = quantize(float_network("autoencoder"), "random", weights="int4", block=32, activations="int16").model
    program, programs = compile_keeping(network, load_machine(WIDE_ACTIVATIONS), Options(effort=0))
    found = compare_values(network, program, programs, random_inputs(network, np.random.default_rng(1)))
    assert found.first is None and len(found.tensors) == 10
    assert sum(tensor.isolated.unequal for tensor in found.tensors) <= 0.05 * sum(of.values for of in found.tensors)


def test_scales_leave_room_for_what_a_zero_point_adds() -> None:
    """All weights are the greatest, so a zero point adds more than a bias holds with scales of sixteen bits."""
    network = block_model(160, 16, activations="int16")
    held = {each.name: each for each in network.graph.initializer}
    held["w"].CopyFrom(helper.make_tensor("w", TensorProto.INT4, (160, 16), [7] * 160 * 16))
    held["x_zero"].CopyFrom(numpy_helper.from_array(np.array(12000, np.int16), "x_zero"))
    x = np.random.default_rng(3).uniform(-300, 300, (3, 160)).astype(np.float32)
    program = compile_model(network, load_machine(WIDE_ACTIVATIONS), Options(effort=0))
    said = re.search(r"leave results up to ([\d.e+]+) steps off", program.metadata["precision of matmul"])
    (found,) = simulated(program, {"x": x}).values()
    off = np.abs(np.rint(found / np.float64(np.float32(0.01 * np.sqrt(5)))) - _meaning(network, x)).max()
    assert said is not None and off <= float(said[1]) + 1 < 200


def _meaning(network: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The result in steps, in float64: quantised activations times codes times scales."""
    held = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
    zero = int(held["x_zero"])
    activations = np.clip(np.rint(x / held["x_scale"]) + zero, -(1 << 15), (1 << 15) - 1) - zero
    real = held["w"].astype(np.float64) * held["w_scale"].astype(np.float64).repeat(32, axis=0)[: len(held["w"])]
    exact = activations * np.float64(held["x_scale"]) @ real
    return np.clip(np.rint(exact / np.float64(held["y_scale"])) - 5, -(1 << 15), (1 << 15) - 1) + 5


@pytest.mark.slow
def test_networks_are_the_simulators_on_the_hardware() -> None:
    small: Machine = load_machine(NARROW, SMALL)
    jobs = []
    for summed, results, block in ((20, 12, 8), (32, 5, 16)):
        network = block_model(summed, results, block, element="INT4")
        program = compile_model(network, small)
        image = host.dram_image(program, random_inputs(network, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(small, jobs, range(len(jobs)))


@pytest.mark.long
def test_a_transformer_with_activations_of_sixteen_bits_is_the_simulators_on_the_hardware() -> None:
    sizes = Decoder(layers=1, features=16, heads=2, sources=1, hidden=20, words=12)
    network = prefill(Builder("block"), sizes, 6)
    blocks = quantize(network, "random", weights="int4", block=16, activations="int16").model
    machine = load_machine(WIDE_ACTIVATIONS, SMALLER)
    program = compile_model(blocks, machine)
    assert {"mma_w4", "sum_blocks", "multiply_add", "normalize_kept"} <= {
        each.mnemonic for each in program.instructions
    }
    image = host.dram_image(program, random_inputs(blocks, np.random.default_rng(0)))
    assert_equal(machine, [(program, image, place_regions(program.limits))], range(1))
