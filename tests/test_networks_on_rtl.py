"""Whole networks of programs/networks on the hardware: every byte of memory and every counter as the simulator's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from programs.decoder.model import PLACES, STEP, calibration, float_step, load_weights
from programs.decoder.network import SIZES, TABLE
from programs.networks.builder import Builder
from programs.networks.decoder import Decoder, step, step_samples
from programs.networks.quantise import random_inputs
from programs.networks.registry import int8_network
from tests.attention_networks import attention_network
from tests.compiler.lower.test_normalize_groups import group_model
from tests.compiler.masks import masked_model
from tests.compiler.models import random_inputs as network_inputs
from tests.compiler.normalizations import normalizing_model
from tests.digits import MODEL
from tests.random_networks import random_network
from tests.test_simulator_equals_rtl import assert_same_bytes, assert_same_counters
from tests.twins import arrays
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.quantization.quantize import quantize
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8", "mobilenetv1-0.25", "lstm-denoiser"])
def test_the_whole_network_is_the_simulators(name: str) -> None:
    model = int8_network(name)
    program = compile_model(model, load_machine("base16"))
    bases = place_regions(program.limits)
    dram = host.dram_image(program, random_inputs(model, 0))

    ((state, counters),) = run_rtl_many(program.machine, [(program, dram, bases)])

    assert_same_bytes(simulate_values(program, dram, bases), state, name)
    assert_same_counters(simulate_cycles(program, bases), counters, name)


@pytest.mark.slow
def test_a_network_on_two_arrays_with_memories_of_their_own_is_the_simulators() -> None:
    model = onnx.load(MODEL)
    program = compile_model(model, arrays(2))
    bases = place_regions(program.limits)
    dram = host.dram_image(program, random_inputs(model, 0))
    used = Counter(instruction.engine.name for instruction in program.instructions)
    assert used["mma"] and used["mma2"]

    ((state, counters),) = run_rtl_many(program.machine, [(program, dram, bases)])

    assert_same_bytes(simulate_values(program, dram, bases), state, "digits")
    assert_same_counters(simulate_cycles(program, bases), counters, "digits")


@pytest.mark.slow
def test_random_networks_are_the_simulators() -> None:
    """Lookups, products of tensors, sums, strided results: whatever random networks select."""
    programs = require_the_simulators("base16", [random_network(seed) for seed in range(20)])

    assert {"lookup", "mul", "sum", "maximum"} <= mnemonics(programs)


@pytest.mark.slow
def test_random_networks_without_an_array_are_the_simulators() -> None:
    """Products in the vector engine, in parts where the memories of weights and sums are small."""
    small = ("memories.wgt.kib=4", "memories.acc.kib=8")
    programs = require_the_simulators("vector-only", [random_network(seed) for seed in range(8)], small)

    assert {"multiply", "multiply_add", "requantize"} <= mnemonics(programs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "has_softmax", "selected"),
    [
        ("base16", False, {"mma_transposed", "lookup", "copy", "add_sums"}),
        pytest.param(
            *("vector16", True, {"mma_transposed", "sum_exponentials", "max_lanes", "normalize", "add_sums"}),
            marks=pytest.mark.long,
        ),
    ],
)
def test_random_networks_with_transpositions_are_the_simulators(
    machine: str, has_softmax: bool, selected: set[str]
) -> None:
    """Products of computed tensors, transposed tiles, moves of elements between lanes, rows and pixels."""
    models = [random_network(seed, transposes=True, has_softmax=has_softmax) for seed in range(16)]
    programs = require_the_simulators(machine, models)

    assert selected <= mnemonics(programs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "has_softmax", "selected"),
    [
        ("base16", False, {"mma_transposed", "lookup"}),
        pytest.param(
            "vector16",
            True,
            {"mma_transposed", "sum_exponentials", "max_lanes", "normalize"},
            marks=pytest.mark.long,
        ),
    ],
)
def test_attention_is_the_simulators(machine: str, has_softmax: bool, selected: set[str]) -> None:
    """Heads of 16 channels, which fill the lanes, and of 10, which do not; 30 positions, which never do."""
    models = [attention_network(channels, has_softmax=has_softmax) for channels in (64, 40)]
    programs = require_the_simulators(machine, models)

    assert selected <= mnemonics(programs)


@pytest.mark.slow
def test_normalisations_and_masks_are_the_simulators() -> None:
    """Rows that fill the lanes or do not, with a mean and without, in one node and in nine; of positions; a step."""
    shapes = {"one node": (3, 16), "divided": (2, 5, 10), "root mean square": (1, 3, 12), "over the length": (4, 7)}
    models = [normalizing_model(form, shape) for form, shape in shapes.items()]
    models.append(masked_model((2, 5, 10), np.arange(10) < 7))
    models += [group_model(shape, groups) for shape, groups in (((1, 6, 5, 7), None), ((1, 12, 5, 7), 3))]
    models.append(decoder_step())
    programs = require_the_simulators("sequence16", models, SMALL)

    assert {"sum_channels", "sum_deviations", "sum_squares", "leading", "root", "deviation"} <= mnemonics(programs)
    assert {"ratio", "max_kept", "sum_kept", "normalize_kept"} <= mnemonics(programs)


def decoder_step() -> onnx.ModelProto:
    """A token after up to six others, by a layer with a cache and a mask of it."""
    sizes = Decoder(layers=1, features=16, heads=2, sources=1, hidden=24, words=10)
    model = step(Builder("step"), sizes, 6)
    rows = np.random.default_rng(1).standard_normal((sizes.words, sizes.features), np.float32)
    return quantize(model, step_samples(model, sizes, 6, rows)).model


@pytest.mark.long
def test_a_trained_decoders_step_is_the_simulators() -> None:
    """A character after 99 others, of the text that it was calibrated with: as the simulator has it, and likely."""
    model, machine = onnx.load(STEP), load_machine("sequence16")
    program = compile_model(model, machine)
    text = calibration()[:1, :PLACES]
    samples = step_samples(float_step(), SIZES, PLACES, load_weights()[TABLE], words=text)
    dram = host.dram_image(program, {name: each[99:100] for name, each in samples.items()})
    bases = place_regions(program.limits)

    ((state, counters),) = run_rtl_many(machine, [(program, dram, bases)])

    assert_same_bytes(simulate_values(program, dram, bases), state, "the decoder's step")
    assert_same_counters(simulate_cycles(program, bases), counters, "the decoder's step")
    logits = host.read_outputs(program, state.dram)["logits"]
    assert text[0, 100] in np.argsort(logits.ravel())[-5:]


def require_the_simulators(name: str, models: list[onnx.ModelProto], changes: Sequence[str] = ()) -> list[Program]:
    """Every model is wholly on the machine, and leaves the simulator's bytes and counters; returns the programs."""
    machine = load_machine(name, changes)
    programs = [compile_model(model, machine) for model in models]
    drams = [
        host.dram_image(program, network_inputs(model, np.random.default_rng(0)))
        for program, model in zip(programs, models, strict=True)
    ]
    jobs = [(program, dram, place_regions(program.limits)) for program, dram in zip(programs, drams, strict=True)]

    runs = run_rtl_many(machine, jobs)

    for place, ((program, dram, bases), (state, counters)) in enumerate(zip(jobs, runs, strict=True)):
        assert_same_bytes(simulate_values(program, dram, bases), state, f"{name}, model {place}")
        assert_same_counters(simulate_cycles(program, bases), counters, f"{name}, model {place}")
    return programs


def mnemonics(programs: list[Program]) -> set[str]:
    return {instruction.mnemonic for program in programs for instruction in program.instructions}
