"""The figures of a point: of its machine, and of all networks of the space by their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.points.derived import milliseconds
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.priced import MachineFigures

Figures = Mapping[str, float | None]
"""By name; None where it is not known."""


def machine_figures(machine: MachineFigures) -> dict[str, float | None]:
    """Those that are known before any network is compiled."""
    return {
        "logic_mm2": machine.logic_mm2,
        "memory_mm2": machine.memories_mm2,
        "area_mm2": machine.area_mm2,
        "kge": machine.kge,
        "flip_flops": machine.flip_flops,
        "clock_mhz": machine.clock_mhz,
    }


def all_figures(machine: MachineFigures, networks: Sequence[tuple[float, NetworkFigures]]) -> dict[str, float | None]:
    """Every figure of a point, from each of its networks with its weight; but for `run_cycles`, for each image."""
    of_each = [weight * each.cycles_per_image for weight, each in networks]
    cycles = whole(sum(of_each))
    useful = sum(own * each.utilisation for own, (_, each) in zip(of_each, networks, strict=True))
    energy = _energy(networks)
    clock = machine.clock_ns
    ms = None if clock is None else sum(milliseconds(own, clock) for own in of_each)
    found = machine_figures(machine) | {
        "cycles": cycles,
        "run_cycles": whole(sum(weight * each.cycles for weight, each in networks)),
        "ms": ms,
        "utilisation": useful / cycles if cycles else 0.0,
        "dram_bytes": whole(sum(weight * each.dram_bytes / each.images for weight, each in networks)),
        "energy_mj": energy,
        "energy_delay": None if ms is None or energy is None else ms * energy,
        "host_nodes": sum(each.host_nodes for _, each in networks),
    }
    assert found.keys() == FIGURES.keys()
    return found


def _energy(networks: Sequence[tuple[float, NetworkFigures]]) -> float | None:
    total = 0.0
    for weight, each in networks:
        if each.mj_per_image is None:
            return None
        total += weight * each.mj_per_image
    return total


def whole(value: float) -> float:
    """A sum as an integer, where the weights make it one."""
    return int(value) if value == int(value) else value


def best_possible(known: Figures, cycles: float) -> dict[str, float]:
    """No value of a figure can be better, when so much of the machine is known and no run takes fewer cycles."""
    mhz = known.get("clock_mhz")
    least = {
        **{name: float("inf") if FIGURES[name].is_more_better else 0.0 for name in FIGURES},
        "utilisation": 1.0,
        "cycles": cycles,
        "ms": cycles / (1000 * mhz) if mhz else 0.0,
    }
    return {name: least[name] if (value := known.get(name)) is None else value for name in FIGURES}
