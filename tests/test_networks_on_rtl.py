"""Whole networks of programs/networks on the hardware: every byte of memory and every counter as the simulator's."""

from __future__ import annotations

import pytest

from compiler.pipeline import compile_model
from isa.loader import load_machine
from isa.program import place_regions
from programs.networks.quantise import random_inputs
from programs.networks.registry import int8_network
from rtl.run import run_rtl_many
from simulator.cycles import simulate_cycles
from simulator.values import simulate_values
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
