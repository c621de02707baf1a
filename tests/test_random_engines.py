"""Machines with any number of engines of each template: the simulator is the hardware, and programs keep their meaning.

`python -m tests.random_engines SEED` prints a machine. The long ring builds thirty of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.random_engines import machine_of_engines
from tests.rings import long_beyond
from tests.test_simulator_equals_rtl import assert_equal, random_jobs
from tilewright.isa.machine.engine import Template

MACHINES = 30

ALL_OF_THEM = long_beyond(2, range(MACHINES))


def test_random_machines_have_none_to_three_engines_of_each_template() -> None:
    counts = {template: set[int]() for template in Template}
    for seed in range(MACHINES):
        found = Counter(engine.template for engine in machine_of_engines(seed).engines.values())
        for template, seen in counts.items():
            seen.add(found[template])

    assert counts == {Template.DMA: {2, 3, 4}, Template.SYSTOLIC: {0, 1, 2, 3}, Template.VECTOR: {0, 1, 2, 3}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL_OF_THEM)
def test_the_simulator_is_the_hardware_whatever_engines_there_are(seed: int) -> None:
    machine = machine_of_engines(seed)
    seeds = range(7)

    assert_equal(machine, random_jobs(machine, seeds, 40), [f"{seed}, program {each}" for each in seeds])
