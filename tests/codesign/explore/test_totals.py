"""The figures of a point from those of its networks."""

from __future__ import annotations

import pytest

from tilewright.codesign.explore.totals import all_figures
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.priced import MachineFigures

MACHINE = MachineFigures("m", "k", "P", 1.0, 0.5, 1.0, 1, "exact", "m", 2.0)


def network(name: str, cycles: int, images: int) -> NetworkFigures:
    """With 100 bytes, 0.25 mJ on chip and 0.75 of DRAM for a run."""
    return NetworkFigures(name, "h", "m", "k", 1, cycles, 10, 0.5, 100, 0.25, 0.75, 0, 9, 90, 0.1, images=images)


def test_of_batches_all_figures_but_run_cycles_are_for_each_image() -> None:
    found = all_figures(MACHINE, [(1.0, network("one", 1000, 1)), (3.0, network("four", 400, 4))])

    assert found["cycles"] == 1000 + 3 * 100
    assert found["run_cycles"] == 1000 + 3 * 400
    assert found["ms"] == pytest.approx((1000 + 3 * 100) * 2e-6)
    assert found["dram_bytes"] == 100 + 3 * 25
    assert found["energy_mj"] == pytest.approx(1 + 3 * 0.25)
    assert found["utilisation"] == pytest.approx(0.5)
