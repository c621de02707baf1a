"""Networks of floats of few bits, compiled for a small `mx16`: hardware and simulator do the same, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.float_models import SUMMED, float_model
from tests.small_float_networks import layer_network, quantised_network, samples
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""


@pytest.mark.slow
def test_networks_on_the_hardware() -> None:
    machine = load_machine("mx16", SMALL)
    x = {"x": np.random.default_rng(1).normal(0, 1, (4, SUMMED)).astype(np.float32)}
    cases = [(float_model(weights, activations="e4m3"), x) for weights in ("e4m3", "e2m1")]
    cases += [
        (quantised_network(layer_network(layer), weights="e4m3", activations="e4m3"), {"x": samples(1, seed=9)[0]})
        for layer in ("clip", "add", "max_pool", "average")
    ]
    programs = [(compile_model(model, machine), inputs) for model, inputs in cases]
    jobs = [(program, dram_image(program, inputs), place_regions(program.limits)) for program, inputs in programs]
    assert_equal(machine, jobs, range(len(jobs)))
