"""Networks of floats of few bits on `mx16`, small and as it ships: hardware and simulator do the same, byte by byte."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.float_models import SUMMED, float_model
from tests.small_float_networks import layer_network, quantised_network, samples
from tests.test_simulator_equals_rtl import Job, assert_equal, random_jobs
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.small_floats import BLOCK

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""


Case = tuple[onnx.ModelProto, dict[str, NDArray[np.float32]]]


def products(block: int = 0) -> list[Case]:
    """One for each type of weights; in blocks, these have scales of E8M0."""
    x = {"x": np.random.default_rng(1).normal(0, 1, (4, SUMMED)).astype(np.float32)}
    axis = 0 if block else 1
    return [(float_model(weights, axis, block, block > 0, "e4m3"), x) for weights in ("e4m3", "e2m1")]


def layers(*names: str) -> list[Case]:
    x = {"x": samples(1, seed=9)[0]}
    return [(quantised_network(layer_network(name), weights="e4m3", activations="e4m3"), x) for name in names]


def jobs_of(cases: list[Case], machine: Machine) -> list[Job]:
    programs = [(compile_model(model, machine), inputs) for model, inputs in cases]
    return [(program, dram_image(program, inputs), place_regions(program.limits)) for program, inputs in programs]


@pytest.mark.slow
def test_networks_on_the_hardware() -> None:
    machine = load_machine("mx16", SMALL)
    jobs = jobs_of([*products(), *layers("clip", "add", "max_pool", "average")], machine)
    assert_equal(machine, jobs, range(len(jobs)))


@pytest.mark.slow
def test_weights_in_blocks_with_e8m0_scales_on_the_hardware() -> None:
    machine = load_machine("mx16", SMALL)
    jobs = jobs_of(products(BLOCK), machine)
    assert all("sum_blocks" in {each.mnemonic for each in program.instructions} for program, _, _ in jobs)
    assert_equal(machine, jobs, range(len(jobs)))


@pytest.mark.long
def test_mx16_as_it_ships_on_its_hardware() -> None:
    """Every layer, a network in blocks of each type of weights, and random programs."""
    machine = load_machine("mx16")
    x = {"x": samples(1, seed=9)[0]}
    whole = [(quantised_network(weights=w, activations="e4m3", block=BLOCK), x) for w in ("e4m3", "e2m1")]
    jobs = jobs_of([*products(), *products(BLOCK), *layers("clip", "add", "max_pool", "average"), *whole], machine)
    jobs += random_jobs(machine, range(6), 30)
    assert_equal(machine, jobs, range(len(jobs)))
