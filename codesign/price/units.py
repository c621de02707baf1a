"""What the hardware of a machine consists of, by the names that a price has for its units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tilewright.codesign.price.netlist import Bill, M, Netlist, NetlistReader
from tilewright.codesign.price.parts import array, lanes
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.storage import StorageOptions, options, whole
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.block import Block
from tilewright.rtl.bus import read_channel_name, read_channels
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.npu import Npu
from tilewright.rtl.systolic import SystolicArray

REPEATED = (Memory, SystolicArray, VectorDatapath)
"""Parts that are priced from one of what they repeat, unless the price is exact."""

ARBITERS = "arbiters of"
"""What a report calls the hardware around a memory, before the memory's name."""

UNITS: Mapping[str, str] = {
    "": "run control",
    "registers": "host registers",
    "counters": "counters",
    "fetch": "fetch",
    "dispatch": "dispatch",
}
"""What a report calls the hardware at a path that every machine has once."""


def units_of(machine: Machine) -> dict[str, str]:
    """What a report calls the hardware at a path; queues and the arbiters of memories have units of their own."""
    channels = {read_channel_name(port): f"read channel {port or ''}".strip() for port in read_channels(machine)}
    watchdogs = {f"watchdog{port}_{number}": "watchdogs" for port in range(machine.dram.ports) for number in range(2)}
    units = {**UNITS, **channels, **watchdogs}
    for engine in machine.engines.values():
        units |= facet_of(engine.template).units(machine, engine)
    return units


@dataclass(slots=True)
class UnitParts(Generic[M]):
    """What a unit consists of: modules of logic, and storages, by path, each of which is one or the other."""

    bill: Bill[M] = field(default_factory=list)
    storages: dict[str, StorageOptions[M]] = field(default_factory=dict)
    is_estimated: bool = False
    is_payload: bool = False  # its flip-flops are clocked while their engine has something in flight


def unit_parts(read: NetlistReader[M], machine: Machine, process: Process, exact: bool) -> dict[str, UnitParts[M]]:
    """The parts of each unit, on-chip memories left out."""
    found = read(Npu(machine), *REPEATED)
    queues = _queues(found, machine)
    units: dict[str, UnitParts[M]] = {}

    def unit(path: str) -> UnitParts[M]:
        return units.setdefault(unit_name(path, machine, queues), UnitParts())

    for module in found.modules:
        unit(module.path).bill.append((1, module))
    for path, place in found.places.items():
        match place.part:
            case Block() if is_bank(path, machine):
                continue
            case Memory():
                storage = options(read, unit_name(path, machine, queues), place.part, process, exact)
                unit(path).storages[path] = storage
                unit(path).is_estimated |= storage.is_estimated
            case _:
                unit(path).bill.extend(whole(read, place.part) if exact else _estimate(read, place.part, machine))
                unit(path).is_estimated |= not exact
                unit(path).is_payload = machine.has_gated_clocks
    return units


def unit_name(path: str, machine: Machine, queues: frozenset[str]) -> str:
    """`top.load.packer.window` is of unit load, `top.load.packer.beats.entries` of queue load.packer.beats."""
    for queue in queues:
        if path == queue or path.startswith(f"{queue}."):
            return f"queue {_inside(queue)}"
    inside = _inside(path)
    first = inside.split(".")[0].split("$")[0]
    if first in machine.memories:
        return f"{ARBITERS} {first}"
    two = ".".join(inside.split(".")[:2])
    units = units_of(machine)
    return units.get(two) or units[first]


def _queues(found: Netlist[M], machine: Machine) -> frozenset[str]:
    """The paths of what is little else than a storage; a storage in a unit with a name of its own stands for itself."""
    storages = [
        path for path, place in found.places.items() if isinstance(place.part, Memory) and not is_bank(path, machine)
    ]
    parents = {path: path.rpartition(".")[0] for path in storages}
    return frozenset(path if _inside(parent) in units_of(machine) else parent for path, parent in parents.items())


def is_bank(path: str, machine: Machine) -> bool:
    """Whether a storage is part of an on-chip memory of the machine's file."""
    return _inside(path).split(".")[0].split("$")[0] in machine.memories


def _inside(path: str) -> str:
    return path.removeprefix("top").removeprefix(".")


def _estimate(read: NetlistReader[M], part: wiring.Component, machine: Machine) -> Bill[M]:
    match part:
        case SystolicArray():
            return array(read, part)
        case VectorDatapath():
            return lanes(read, machine, part.engine)
        case _:
            raise AssertionError(part)
