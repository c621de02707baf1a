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
from tilewright.compiler.select.selector import select
from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.tiling import cost
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Planner
from tilewright.compiler.tiling.surroundings import ALONE
from tilewright.isa.files.loader import load_machine
from tilewright.isa.timing import dma_round_trip


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


def test_rows_that_are_cut_take_the_time_of_their_bursts() -> None:
    """A sum of two tensors, loaded in tiles of single columns: a burst for each word, of which few are under way."""
    machine = load_machine("base16")
    network = network_for(machine, 0)
    output = network.add(network.input(1, 64, 28, 28), network.input(1, 64, 28, 28))
    planner = Planner(select(network.program(output), machine), TilingOptions(residency="none"), ALONE)
    found = planner.candidates(0, planner.plan().residency)
    columns = found.cuts.sizes[planner.plan().shapes[0].cover.space.column]
    narrow, whole = (found.cycles[found.is_double & (columns == width)].min() for width in (1, 28))
    bursts = 2 * 4 * 28 * 28
    under_way = machine.flights[find_transfers(machine).load("act").engine].bursts
    assert narrow > bursts * dma_round_trip(machine) / under_way > 3 * whole
