"""Banks with one port, and words interleaved over banks: the hardware takes the cycles that the model says."""

import pytest

from tests.one_port import one_port_machine
from tests.test_simulator_equals_rtl import assert_equal, random_jobs


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5])
def test_random_programs_on_random_ports(seed: int) -> None:
    """Also where results wait for the array to read its weights, and vectors for the banks of their sums."""
    machine, seeds = one_port_machine(seed), range(100 * seed, 100 * seed + 24)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)
