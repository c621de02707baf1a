"""A clock to aim at: macros and mapping that reach it in the least area, and what keeps a machine from it.

First everything is mapped as fast as it can be, and each memory gets the smallest macros that are soon enough. Then
each unit is mapped with the least effort with which the clock is still reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from amaranth.hdl import Shape
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tilewright.codesign.price.choice import HardwareChoices
from tilewright.codesign.price.clock import STAND_IN_BITS, Clock, MachinePaths, UnitClock
from tilewright.codesign.price.corners import TYPICAL
from tilewright.codesign.price.efforts import AREA, FASTEST, SMALLEST, harder
from tilewright.codesign.price.macros import MemoryPrice, memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.statement_paths import operator_of
from tilewright.codesign.price.static_timing import Mapped
from tilewright.codesign.price.units import ARBITERS, UNITS
from tilewright.codesign.templates.systolic import ARRAY
from tilewright.codesign.templates.vector import lanes_of
from tilewright.isa.files.keys import MOST_ROUND_SHIFT
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.systolic import SystolicArray


@dataclass(frozen=True, slots=True)
class Aim:
    """How near a machine comes to a clock, and what that takes.

    `corners`: its clock in MHz at each corner of the process. `remedies`: the units that do not reach the target, the
    slowest first, each with what would help. `efforts`: how hard each unit is mapped, by its key; `logic_um2`: all
    logic, mapped so.
    """

    target_mhz: float
    clock: Clock
    corners: Mapping[str, float]
    efforts: Mapping[str, str]
    memories: tuple[MemoryPrice, ...]
    logic_um2: float
    remedies: tuple[tuple[UnitClock, str], ...]

    @property
    def is_reached(self) -> bool:
        return not self.remedies


def aimed(price: Price, target_mhz: float) -> Aim:
    """What reaches a clock, or comes nearest to it. Raises PriceError where the process has no delays."""
    machine, process, period = price.machine, price.process, 1000 / target_mhz
    hardware = MachinePaths(machine, process, HardwareChoices(effort=FASTEST))
    choice, nearest = _macros(hardware, machine, process, period)
    choice, clock = _least_effort(hardware, choice, max(period, nearest.ns))
    corners = {TYPICAL: clock.mhz}
    for corner in process.corners:
        corners[corner] = hardware.with_choice(replace(choice, corner=corner)).found().mhz
    memories = tuple(
        memory_price(machine, memory, process, choice.macro_ns.get(memory.name, math.inf))
        for memory in machine.memories.values()
    )
    slow = [unit for unit in clock.units if unit.ns > period]
    remedies = tuple((unit, remedy(machine, process, unit, period)) for unit in slow)
    return Aim(target_mhz, clock, corners, choice.efforts, memories, _logic_um2(price, hardware, choice), remedies)


NO_KEY = "no key of the machine's file"

STAGES: Mapping[str, tuple[int, str]] = {
    "memory_output": (1, "gives a word a cycle of its own"),
    "table_output": (1, "gives an element that is looked up a cycle of its own"),
    "select": (1, "divides what chooses a word between the memory's ports and their readers"),
    "halt": (1, "registers what run control tells each unit, and what that shows it"),
    "mac": (1, "registers each product before it is added"),
    "multiply": (1, "gives the choice of a product's factors a cycle of its own"),
    "round_shift": (MOST_ROUND_SHIFT, "divides the shifter"),
    "request": (1, "registers what each bank is asked for"),
    "check": (1, "takes each iteration and its checks from registers"),
    "start": (1, "lets no engine take an instruction in the cycle of its last access"),
}
"""By key of a machine's pipeline: how many stages shorten a path of logic, and what each does."""

OF_OPERATORS = {"mul": "multiply", "round_shift": "round_shift"}
"""The keys for paths that end in an operator of a lane."""


def remedy(machine: Machine, process: Process, unit: UnitClock, period: float) -> str:
    """What of a machine's file would shorten a path that takes longer than the period, in words."""
    name = unit.start.partition(".")[0]
    if name not in machine.memories or not unit.start.endswith(" data"):
        return _first_of(_keys_for(machine, unit), machine, NO_KEY)
    soonest = _soonest(machine, process, name)
    if soonest > period:
        return f"none: no macro gives a word within {period:.2f} ns; the soonest takes {soonest:.2f}"
    if name in machine.table_memories:
        return _first_of(["table_output"], machine, NO_KEY)
    banks = f"more banks of {name}, which are smaller macros, or fewer readers of it"
    return _first_of(["memory_output"], machine, banks)


def _first_of(keys: Iterable[str], machine: Machine, otherwise: str) -> str:
    """The first of some keys of the pipeline that has a stage to give, with what that does."""
    for key in keys:
        most, does = STAGES[key]
        stages = getattr(machine.pipeline, key)
        if stages < most:
            return f"pipeline.{key}: {stages + 1}, which {does}"
    return otherwise


def _keys_for(machine: Machine, unit: UnitClock) -> Iterator[str]:
    """The keys of the pipeline that divide a path of logic, the one that helps most first."""
    begins = unit.start.partition(".")[0]
    if begins in machine.memories and begins not in machine.table_memories:
        yield "select"
    if unit.start == "running" or unit.unit in ("run control", "counters"):
        yield "halt"
    if unit.unit == ARRAY:
        yield "mac"
    if (operator := operator_of(unit.end)) in OF_OPERATORS:
        yield OF_OPERATORS[operator]
    is_asked = begins in machine.engines  # of memories, by what walks an engine's instruction
    if is_asked and unit.unit.startswith(ARBITERS):
        yield "request"
    is_in_engine = unit.unit.partition(" ")[0] in machine.engines
    if is_asked and is_in_engine:
        yield "check"
    if (is_asked or begins == "dispatch") and (is_in_engine or unit.unit == UNITS["dispatch"]):
        yield "start"


def _macros(fastest: MachinePaths, machine: Machine, process: Process, period: float) -> tuple[HardwareChoices, Clock]:
    """For each memory the latest macros that reach the period, or the soonest where none do; and the clock with them.

    What comes behind a macro is what its longest path takes beyond the macro's own time; it does not change with it.
    """
    limits: dict[str, float] = {}
    while True:  # a memory's path may be hidden behind that of another
        clock = fastest.with_macros(limits).found()
        sooner = {}
        for name, path in _longest_from_memories(machine, clock).items():
            now = _macro_ns(machine, process, name, limits.get(name, math.inf))
            wanted = max(_soonest(machine, process, name), now - (path - period))
            if path > period and wanted < now:
                sooner[name] = wanted
        if not sooner:
            return HardwareChoices(FASTEST, macro_ns=limits), clock
        limits |= sooner


def _longest_from_memories(machine: Machine, clock: Clock) -> dict[str, float]:
    found: dict[str, float] = {}
    for unit in clock.units:
        name = unit.start.partition(".")[0]
        if name in machine.memories and unit.start.endswith(" data"):
            found[name] = max(found.get(name, 0.0), unit.ns)
    return found


def _macro_ns(machine: Machine, process: Process, name: str, most_ns: float) -> float:
    return memory_price(machine, machine.memories[name], process, most_ns).macro.clock_to_output_ns or 0.0


def _soonest(machine: Machine, process: Process, name: str) -> float:
    """How soon the soonest macro gives a word that has the ports which a memory needs."""
    ports = machine.memories[name].ports
    return min(each.clock_to_output_ns or 0.0 for each in process.macros if each.ports == ports)


# -- effort ------------------------------------------------------------------------------------------------------------


def _least_effort(hardware: MachinePaths, choice: HardwareChoices, period: float) -> tuple[HardwareChoices, Clock]:
    """Each unit with the least effort that reaches the period, which the most effort reaches everywhere."""
    choice = replace(choice, effort=SMALLEST)
    while True:
        paths = hardware.with_choice(choice)
        clock = paths.found()
        late = [unit for unit in clock.units if unit.ns > period]
        may_grow = {key for key, effort in paths.efforts.items() if harder(effort) is not None}
        if not late or not may_grow:
            return replace(choice, efforts=paths.efforts), clock
        grow = {key for unit in late for key in _keys(paths, unit)} & may_grow or may_grow
        grown = {key: harder(paths.efforts[key]) or FASTEST for key in grow}
        choice = replace(choice, efforts={**paths.efforts, **grown})


def _keys(paths: MachinePaths, unit: UnitClock) -> set[str]:
    """What a path begins and ends in, by the keys of what is mapped; what stands between units belongs to each."""
    found = {cell for cell, place in paths.places.items() if unit.unit in _names(place.part) and cell in paths.mapped}
    if found:  # within an array or a lane
        return found
    begins = unit.start.partition(".")[0]
    units = {kind for name, kind in paths.children.items() if unit.unit == paths.unit_name(name) or name == begins}
    return {"top", *units}


def _names(part: wiring.Component) -> tuple[str, ...]:
    match part:
        case SystolicArray():
            return (ARRAY,)
        case VectorDatapath():
            return (lanes_of(part.engine),)
        case _:
            return ()


# -- area --------------------------------------------------------------------------------------------------------------


def _logic_um2(price: Price, hardware: MachinePaths, choice: HardwareChoices) -> float:
    """The logic of a price, and what it takes more when it is mapped as chosen instead of for area."""
    chosen, smallest = hardware.with_choice(choice), hardware.with_choice(HardwareChoices(effort=AREA))
    areas = {cell.name: cell.area_um2 for cell in price.process.cells}

    def area(module: Mapped) -> float:
        return sum(areas.get(cell["type"], 0.0) for cell in module.cells.values())

    more = {key: area(module) - area(smallest.mapped[key]) for key, module in chosen.mapped.items()}
    counts = {key: _count(chosen.places[key].part) if key in chosen.places else 1.0 for key in more}
    return price.logic_um2 + sum(counts[key] * each for key, each in more.items())


def _count(part: wiring.Component) -> float:
    """How often the hardware has what stands for a part: one lane, one processing element, eight bits of a queue."""
    match part:
        case SystolicArray():
            return float(part.rows * part.cols)
        case VectorDatapath():
            return float(part.engine.vector.lanes)
        case Memory():
            return Shape.cast(part.shape).width / STAND_IN_BITS
        case _:
            raise AssertionError(part)
