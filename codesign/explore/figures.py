"""The figures of a point that constraints and objectives may name: what each is, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its meaning, its unit, whether more of it is better, and what must be known for it."""

    about: str
    unit: str = ""
    is_more_better: bool = False
    needs_networks: bool = False
    needs_clock: bool = False


FIGURES: Mapping[str, Figure] = {
    "logic_mm2": Figure("area of the logic, synthesised and not placed", unit="mm²"),
    "memory_mm2": Figure("area of the memories' macros", unit="mm²"),
    "area_mm2": Figure("logic_mm2 and memory_mm2 together", unit="mm²"),
    "kge": Figure("logic in thousands of gate equivalents"),
    "flip_flops": Figure("flip-flops in the logic"),
    "clock_mhz": Figure("clock by the longest path", unit="MHz", is_more_better=True, needs_clock=True),
    "cycles": Figure("cycles for each image, each network's times its weight", needs_networks=True),
    "run_cycles": Figure("cycles of a run with all its images, each network's times its weight", needs_networks=True),
    "ms": Figure(
        "milliseconds of these cycles at the machine's clock", unit="ms", needs_networks=True, needs_clock=True
    ),
    "utilisation": Figure("of the array's products, those of the networks", is_more_better=True, needs_networks=True),
    "dram_bytes": Figure("bytes to and from DRAM, each network's times its weight", unit="bytes", needs_networks=True),
    "energy_mj": Figure("energy on chip and of DRAM, each network's times its weight", unit="mJ", needs_networks=True),
    "energy_delay": Figure("energy_mj times ms", unit="mJ·ms", needs_networks=True, needs_clock=True),
    "host_nodes": Figure("nodes that are left to the host, whose time is in no cycles", needs_networks=True),
}
