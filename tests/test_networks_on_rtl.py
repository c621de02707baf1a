"""Whole networks of programs/networks on the hardware: every byte of memory and every counter as the simulator's."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.pipeline import compile_model
from isa.loader import load_machine
from isa.program import place_regions
from programs.networks.quantise import random_inputs
from programs.networks.registry import int8_network
from rtl.run import run_rtl_many
from simulator.cycles import simulate_cycles
from simulator.values import simulate_values
from tests.compiler.models import random_inputs as network_inputs
from tests.random_networks import random_network
from tests.test_simulator_equals_rtl import assert_same_bytes, assert_same_counters
from tilewright import host


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8", "mobilenetv1-0.25"])
def test_the_whole_network_is_the_simulators(name: str) -> None:
    model = int8_network(name)
    program = compile_model(model, load_machine("base16"))
    bases = place_regions(program.limits)
    dram = host.dram_image(program, random_inputs(model, 0))

    ((state, counters),) = run_rtl_many(program.machine, [(program, dram, bases)])

    assert_same_bytes(simulate_values(program, dram, bases), state, name)
    assert_same_counters(simulate_cycles(program, bases), counters, name)


@pytest.mark.slow
def test_random_networks_are_the_simulators() -> None:
    """Lookups, products of tensors, sums, strided results: whatever random networks select."""
    machine = load_machine("base16")
    models = [random_network(seed) for seed in range(20)]
    programs = [compile_model(model, machine) for model in models]
    drams = [
        host.dram_image(program, network_inputs(model, np.random.default_rng(0)))
        for program, model in zip(programs, models, strict=True)
    ]
    jobs = [(program, dram, place_regions(program.limits)) for program, dram in zip(programs, drams, strict=True)]

    runs = run_rtl_many(machine, jobs)

    mnemonics = {i.mnemonic for program in programs for i in program.instructions}
    assert {"lookup", "mul", "sum", "maximum"} <= mnemonics
    for seed, ((program, dram, bases), (state, counters)) in enumerate(zip(jobs, runs, strict=True)):
        assert_same_bytes(simulate_values(program, dram, bases), state, f"seed {seed}")
        assert_same_counters(simulate_cycles(program, bases), counters, f"seed {seed}")
