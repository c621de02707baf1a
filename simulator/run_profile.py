"""What a profile is: a run's cycles by layer, by cause and by engine. docs/profile.md defines each field.

`profile_json` makes the keys and plain values that users see, and `profile_from_json` reads them. No other place names
a key of a profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tilewright.isa.outside import from_plain
from tilewright.isa.program.partitioned import HostNode
from tilewright.isa.program.state import EngineCounters
from tilewright.simulator.losses import Loss


class Resource(StrEnum):
    """What may bound a run from below; of equal bounds the first counts. NONE bounds a layer without instructions."""

    COMPUTE = "compute"
    DRAM = "dram"
    VECTOR = "vector"
    WEIGHTS = "weights"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class DramBytes:
    """Bytes over the bus, those of fetch included."""

    read: int
    written: int

    @property
    def moved(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class PortTraffic:
    """Bytes over one AXI port, and of the run's cycles the share that its busier way needs for them."""

    users: tuple[str, ...]  # fetch, and engines
    read: int
    written: int
    share: float


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """What a layer cost. Its cycles are its own: those of all layers are the cycles of the run."""

    name: str
    nodes: tuple[str, ...]  # of the ONNX model, that it serves
    cycles: int
    macs: int
    array_macs: int
    utilisation: float
    dram_bytes: DramBytes
    bound_cycles: Mapping[Resource, int]
    bound: Resource
    loss: Mapping[Loss, float]  # in cycles


@dataclass(frozen=True, slots=True)
class RunProfile:
    """What a run cost. `engines` is by the engines' names, and empty where the hardware does not count.

    `images` is how many images a run takes; None for a program that is not compiled for a batch. `axi_ports` is empty
    for a machine of one.
    """

    isa: str
    cycles: int
    macs: int
    array_macs: int
    utilisation: float
    bound_cycles: Mapping[Resource, int]
    dram_bytes: DramBytes
    layers: tuple[LayerProfile, ...]
    engines: Mapping[str, EngineCounters]
    host_nodes: tuple[HostNode, ...] = ()
    images: int | None = None
    axi_ports: tuple[PortTraffic, ...] = ()

    @property
    def cycles_per_image(self) -> float:
        """Throughput, where `cycles` is latency: the cycles of a run, divided by its images."""
        return self.cycles / (self.images or 1)


def profile_json(profile: RunProfile | LayerProfile) -> dict[str, Any]:
    """The keys of docs/profile.md with plain values, ready for JSON."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(profile))
    if isinstance(profile, RunProfile):
        found["cycles_per_image"] = profile.cycles_per_image
    return found


def profile_from_json(value: Mapping[str, Any]) -> RunProfile:
    """What `profile_json` gave; keys that a profile does not have are left out. Raises OutsideError."""
    return from_plain(value, RunProfile)
