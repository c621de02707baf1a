"""Figures that follow from those of a network on a machine and those of the machine: all of them are computed here."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.priced import MachineFigures


@dataclass(frozen=True, slots=True)
class Derived:
    """None where what it follows from is not known."""

    ms: float | None  # at the machine's clock; without the host's nodes
    mj: float | None  # on chip, and of DRAM by the process's assumption
    energy_delay: float | None  # mJ times ms
    area_mm2: float | None
    inferences_per_second: float | None
    images: int  # of a run
    cycles_per_image: float


def derived(network: NetworkFigures, machine: MachineFigures | None) -> Derived:
    """The derived figures of a network on a machine; `machine` is None for one without a price."""
    if machine is None:
        return Derived(None, None, None, None, None, network.images, network.cycles_per_image)
    ms = None if machine.clock_ns is None else milliseconds(network.cycles, machine.clock_ns)
    mj = None if network.on_chip_mj is None or network.dram_mj is None else network.on_chip_mj + network.dram_mj
    return Derived(
        ms=ms,
        mj=mj,
        energy_delay=None if ms is None or mj is None else ms * mj,
        area_mm2=machine.area_mm2,
        inferences_per_second=1000 * network.images / ms if ms else None,
        images=network.images,
        cycles_per_image=network.cycles_per_image,
    )


def milliseconds(cycles: float, clock_ns: float) -> float:
    return cycles * clock_ns / 1e6
