"""Machines with any number of engines of each template: the simulator is the hardware, and programs keep their meaning.

They have several AXI ports, too. `python -m tests.random_engines SEED` prints a machine. The long ring builds thirty
for random programs and a hundred for networks.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.machine_laws import MODELS, specification
from tests.random_engines import machine_of_engines
from tests.rings import long_beyond
from tests.test_simulator_equals_rtl import assert_equal, job, random_jobs
from tilewright.api import compile  # noqa: A004
from tilewright.isa.machine.engine import Direction, Template

MACHINES = 30

MACHINES_FOR_NETWORKS = 100

ALL_OF_THEM = long_beyond(3, [2, 0, 1, *range(3, MACHINES)])
"""The first of them has two ports, and a load and a store on each."""


def test_random_machines_have_none_to_three_engines_of_each_template() -> None:
    counts = {template: set[int]() for template in Template}
    for seed in range(MACHINES):
        found = Counter(engine.template for engine in machine_of_engines(seed).engines.values())
        for template, seen in counts.items():
            seen.add(found[template])

    assert counts == {Template.DMA: {2, 3, 4, 5}, Template.SYSTOLIC: {0, 1, 2, 3}, Template.VECTOR: {0, 1, 2, 3}}


def test_random_machines_have_ports_for_loads_alone_for_stores_alone_and_for_both() -> None:
    machines = [machine_of_engines(seed) for seed in range(MACHINES)]
    found = {
        tuple(bool(machine.on_port(port, direction)) for direction in Direction)
        for machine in machines
        for port in range(1, machine.dram.ports)
    }

    assert found == {(True, False), (False, True), (True, True)}
    assert {machine.dram.ports for machine in machines} == {1, 2, 3, 4}
    assert {len(machine.dma(Direction.OUT)) for machine in machines} == {1, 2}


def test_random_machines_have_vector_engines_of_all_lanes_that_divide_a_word() -> None:
    machines = [machine_of_engines(seed) for seed in range(MACHINES)]
    found = {(machine.lanes, engine.vector.lanes) for machine in machines for engine in machine.of(Template.VECTOR)}

    assert found == {(2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL_OF_THEM)
def test_the_simulator_is_the_hardware_whatever_engines_there_are(seed: int) -> None:
    machine = machine_of_engines(seed)
    seeds = range(7)

    assert_equal(machine, random_jobs(machine, seeds, 40), [f"{seed}, program {each}" for each in seeds])


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(1, range(MACHINES_FOR_NETWORKS)))
def test_networks_on_random_machines_are_the_simulators_on_the_hardware(seed: int) -> None:
    """Nine networks; of a machine without an array or a vector engine, what is left of them beside the host."""
    machine, rng = machine_of_engines(seed), np.random.default_rng(seed)
    programs = [(name, program) for name in MODELS for program in compile(specification(name)[0], machine).programs]

    if machine.of(Template.SYSTOLIC) and machine.of(Template.VECTOR):
        assert {name for name, _ in programs} == set(MODELS)
    elif not programs:
        pytest.skip("all networks run on the host")
    jobs = [job(program, rng) for _, program in programs]
    assert_equal(machine, jobs, [f"{seed}, {name}" for name, _ in programs])
