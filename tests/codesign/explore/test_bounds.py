"""Bounds hold for every program that the compiler makes, and nothing on the front is dropped by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tests.random_networks import random_network
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.bounds import Needs, least_cycles, needs_of, products_a_cycle
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study
from tilewright.codesign.points.evaluate import NetworkFigures, evaluate
from tilewright.codesign.points.network import Network, read_network
from tilewright.isa.files.loader import load_machine

DIGITS = Path("programs/digits/digits_int8.onnx")


def test_products_are_counted_without_padding() -> None:
    figures = evaluate(read_network(DIGITS), load_machine("base16"), effort=0)
    assert isinstance(figures, NetworkFigures)
    needs = needs_of(DIGITS.read_bytes())
    assert 0.7 * figures.macs < needs.products < figures.macs  # whose count has padding in it
    assert needs.weight_bytes > 0


@pytest.mark.parametrize("isa", ["tiny8", "base16", "rect", "vector16", "wide32"])
@pytest.mark.parametrize("bus", [1, 16])
def test_no_program_is_faster(isa: str, bus: int) -> None:
    machine = load_machine(isa, (f"dram.bus_bytes={bus}",))
    figures = evaluate(read_network(DIGITS), machine, effort=0)
    assert isinstance(figures, NetworkFigures) and figures.host_nodes == 0
    assert 0 < least_cycles(needs_of(DIGITS.read_bytes()), machine) <= figures.cycles


@pytest.mark.slow
def test_no_program_of_random_networks_is_faster() -> None:
    """Strides, groups, padding, constants, what is computed twice: whatever a simplification may save."""
    machines = [load_machine(isa, ("dram.bus_bytes=128",)) for isa in ("dw16", "tiny8")]
    bounds = []
    for seed in range(12):
        network = Network(f"random {seed}", random_network(seed).SerializeToString())
        for machine in machines:
            figures = evaluate(network, machine, effort=0)
            if isinstance(figures, NetworkFigures) and not figures.host_nodes:
                bounds.append(least_cycles(needs_of(network.content), machine))
                assert bounds[-1] <= figures.cycles, f"random_network({seed}) on {machine.name}"
    assert sum(bound > 0 for bound in bounds) > 8


def test_an_array_counts_with_the_multipliers_beside_it() -> None:
    machine = load_machine("tiny8")
    a_cycle = products_a_cycle(machine)
    assert machine.rows * machine.cols <= a_cycle <= machine.rows * machine.cols + 4 * machine.lanes
    assert least_cycles(Needs(10 * a_cycle + 1, 0), machine) == 11
    assert least_cycles(Needs(0, 10 * machine.dram.bus_bytes + 1), machine) == 11


def test_points_that_cannot_be_on_the_front_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each 8 KiB more buy nothing once a point takes no more cycles than the bound of the larger ones."""
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32], engines.vec.queue: [4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, area_mm2]\n"
    )
    space = read_space(tmp_path / "space.yaml")
    monkeypatch.setattr(running, "least_cycles", lambda needs, machine: 100_000 // 16 - 4)
    run(space, tmp_path / "s", serve=serve)
    study = Study(tmp_path / "s")
    assert study.counts() == {"measured": 2, "dropped": 1}
    (dropped,) = [entry for entry in study.entries if entry.state == "dropped"]
    assert dropped.label == "memories.act.kib=32 engines.vec.queue=4"
    assert dropped.reason == "memories.act.kib=16 engines.vec.queue=4 is no worse even at 6,246 cycles"
