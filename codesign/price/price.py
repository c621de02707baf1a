"""The price of a machine: logic by unit, memories as macros, gate equivalents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Shape
from amaranth.lib import wiring

from tilewright.codesign.price.macros import MemoryPrice, memory_price, storage_price
from tilewright.codesign.price.netlist import Netlist, netlist
from tilewright.codesign.price.parts import array, lanes, queue, whole
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.synthesis import Bill, Synthesis
from tilewright.isa.engines.datapath_schedule import bind, schedule
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.block import Block
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.npu import Npu
from tilewright.rtl.results import ResultQueue
from tilewright.rtl.systolic import SystolicArray

REPEATED = (Fifo, ResultQueue, SystolicArray, VectorDatapath)
"""Parts that are priced from one of what they repeat, unless the price is exact."""

UNITS: Mapping[str, str] = {
    "": "run control",
    "registers": "host registers",
    "counters": "counters",
    "fetch": "fetch",
    "dispatch": "dispatch",
    "read_channel": "read channel",
    "load": "load",
    "mma": "mma control",
    "mma.array": "array",
    "vec": "vec control",
    "vec.datapath": "vec lanes",
    "store": "store",
}
"""What a report calls the hardware at a path; queues and the arbiters of memories have units of their own."""


SYNTHESISED = "synthesised"
ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Unit:
    """Logic under one name. `basis`: SYNTHESISED as it is, or ESTIMATED from one of the parts that it repeats."""

    name: str
    area_um2: float
    flip_flops: int
    multipliers: int
    basis: str


@dataclass(frozen=True)
class Price:
    """What a machine takes in a process: synthesised, not placed. Three figures, which are never added."""

    machine: Machine
    process: Process
    is_exact: bool
    yosys: str
    script_hash: str
    units: tuple[Unit, ...]  # largest first
    memories: tuple[MemoryPrice, ...]  # in file order, then queues in memory blocks

    @cached_property
    def logic_um2(self) -> float:
        return sum(unit.area_um2 for unit in self.units)

    @cached_property
    def memories_um2(self) -> float:
        return sum(memory.area_um2 for memory in self.memories)

    def gates(self, area_um2: float) -> float:
        """Logic in gate equivalents."""
        return area_um2 / self.process.gate.area_um2

    def share(self, unit: Unit) -> float:
        """Of the logic."""
        return unit.area_um2 / self.logic_um2

    def unit(self, name: str) -> Unit:
        return next(unit for unit in self.units if unit.name == name)


def price_machine(machine: Machine, process: Process | None = None, exact: bool = False) -> Price:
    """The price of a machine in a process, or in the shipped one.

    Estimated from one lane, one processing element and narrow queues of each depth, or `exact`: all of it synthesised,
    every module by itself. Raises PriceError for what the process lacks, and when Yosys is missing.
    """
    process = process or load_process()
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    synthesis = Synthesis(process)
    found = netlist(Npu(machine), Block, *REPEATED)
    memories += tuple(_queue_memories(found, machine, process))
    bills, bases = _bills(found, machine, exact)
    costs = synthesis.costs_of(bills)
    multipliers = _multipliers(machine)
    units = [
        Unit(name, cost.area_um2, round(cost.flip_flops), multipliers.get(name, 0), bases[name])
        for name, cost in costs.items()
        if cost.area_um2 > 0
    ]
    units.sort(key=lambda unit: -unit.area_um2)
    return Price(machine, process, exact, synthesis.version, synthesis.script_hash, tuple(units), memories)


def _queue_memories(found: Netlist, machine: Machine, process: Process) -> Iterator[MemoryPrice]:
    """The memory blocks that are no memory of the machine's file: those of long queues."""
    for path, place in found.places.items():
        inside = path.removeprefix("top.")
        if isinstance(place.part, Block) and inside.split(".")[0] not in machine.memories:
            name = f"queue {inside.rpartition('.')[0]}"
            yield storage_price(name, 1, place.part.depth, Shape.cast(place.part.shape).width, process)


def _bills(found: Netlist, machine: Machine, exact: bool) -> tuple[dict[str, Bill], dict[str, str]]:
    """What each unit consists of, and the basis of its price."""
    bills: dict[str, Bill] = {}
    for module in found.modules:
        bills.setdefault(_unit_name(module.path, machine), []).append((1, module))
    bases = dict.fromkeys(bills, SYNTHESISED)
    for path, place in found.places.items():
        if isinstance(place.part, REPEATED):
            name = _unit_name(path, machine, is_queue=isinstance(place.part, Fifo | ResultQueue))
            bills[name] = whole(place.part) if exact else _estimate(place.part, machine)
            bases[name] = SYNTHESISED if exact else ESTIMATED
    return bills, bases


def _estimate(part: wiring.Component, machine: Machine) -> Bill:
    match part:
        case Fifo():
            return queue(Fifo, Shape.cast(part.shape).width, part.depth)
        case ResultQueue():
            return queue(ResultQueue, Shape.cast(part.result.shape()).width, part.capacity)
        case SystolicArray():
            return array(part)
        case VectorDatapath():
            return lanes(machine)
        case _:
            raise AssertionError(part)


def _unit_name(path: str, machine: Machine, is_queue: bool = False) -> str:
    """`top.load.packer.window` is of unit load."""
    inside = path.removeprefix("top").removeprefix(".")
    if is_queue:
        return f"queue {inside}"
    first = inside.split(".")[0].split("$")[0]
    if first in machine.memories:
        return f"arbiters of {first}"
    two = ".".join(inside.split(".")[:2])
    return UNITS.get(two) or UNITS[first]


def _multipliers(machine: Machine) -> dict[str, int]:
    """Multipliers of data, by unit."""
    in_a_lane = sum(unit.op is Op.MUL for unit in bind(schedule(machine.formats_of("vec"))))
    array = machine.rows * machine.cols if machine.formats_of("mma") else 0
    return {"array": array, "vec lanes": in_a_lane * machine.lanes}
