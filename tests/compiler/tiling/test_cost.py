"""What the analytic model expects of a tile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.compiler.machines import without
from tests.compiler.nests import network_for, select_and_tile
from tests.compiler.tiling.test_window_sums import CENTRE, PLAIN, asymmetric
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.tiling import cost
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.files.loader import load_machine


def test_what_weights_lack_takes_as_long_as_the_product_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an instruction that adds sums, the array multiplies by the number that all weights have in addition."""
    machine = without(load_machine("base16"), "add_sums")
    found: dict[int, float] = {}
    product_cycles = cost._product_cycles
    for zero in (CENTRE, 100):

        def noted(*arguments: Any, zero: int = zero) -> Any:
            cycles = product_cycles(*arguments)
            found.setdefault(zero, float(np.min(cycles)))
            return cycles

        monkeypatch.setattr(cost, "_product_cycles", noted)
        compile_model(asymmetric(PLAIN, zero), machine, Options(effort=0))
    assert found[100] == 2 * found[CENTRE] > 0


def test_partial_sums_of_a_vector_times_a_matrix_are_even() -> None:
    """18 blocks in sums of 5, 5, 5 and 3 would let the bus wait for the array, for each tile of results."""
    of = load_machine("base16")
    network = network_for(of, 0)
    output = network.conv(network.input(1, 18 * of.lanes, 1, 1), 32_000, (1, 1))
    program = select_and_tile(network.program(output), of, TilingOptions())
    sizes = Counter(buffer.size for buffer in program.buffers.values() if buffer.place == "wgt")
    assert len(sizes) == 2  # of all tiles, and of the last one
