"""Large windows: the two nests compute what the one did, and small windows are left alone."""

from __future__ import annotations

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import assert_computes, network_for
from tilewright.compiler.select.windows import windows


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(17, 3, 8), (20, 20, 0), (20, 1, 4)])
def test_computes_the_maximum_of_a_large_window(kernel: int, stride: int, pad: int) -> None:
    network = network_for(machine("base16"), 0)
    output = network.max_pool(network.input(1, 20, 24, 21, high=-100), kernel, stride, pad)
    assert_computes(network, machine("base16"), output)


def test_leaves_a_window_alone_that_fits() -> None:
    network = network_for(machine("base16"), 0)
    program = network.program(network.max_pool(network.input(1, 20, 20, 20), 3, 2, 1))
    assert windows(program, machine("base16")) is program
