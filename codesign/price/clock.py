"""The clock of a machine: the longest path that ends in each unit, from where it begins, and in which statement.

Paths are followed through all units: what leaves one settles when it does, and enters the next one then. The array is
known by its slowest processing element, the vector datapath by one lane, a queue by one of few bits, a memory by its
macro.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import load_timing
from tilewright.codesign.price.choice import HardwareChoices
from tilewright.codesign.price.corners import at_corner
from tilewright.codesign.price.macros import storage_price
from tilewright.codesign.price.netlist import INSTANCE, converted, with_all_inside, with_boxes_inside
from tilewright.codesign.price.parts import ProcessingElement
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.statement_paths import statement_of
from tilewright.codesign.price.static_timing import Arrival, Mapped, Net, Path, StaticTiming
from tilewright.codesign.price.storage import Entries, kind_of
from tilewright.codesign.price.timing_synthesis import TimingSynthesis
from tilewright.codesign.price.units import REPEATED, units_of
from tilewright.codesign.templates.systolic import ARRAY
from tilewright.codesign.templates.vector import lanes_of
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.block import Block
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.npu import Npu
from tilewright.rtl.outline import OutlinedPart
from tilewright.rtl.systolic import SystolicArray

REGISTER_NS = 0.3
"""From the clock to the output of a flip-flop, and from an input to one: of parts whose ports are registers."""

Given = dict[Net, tuple[float, str]]
"""Nets that settle for a reason outside: when, and what begins their path."""

Arrivals = Mapping[tuple[Net, str], Arrival]

NUMBER = re.compile(r"\$\d+")
"""What Amaranth adds to a name that is there twice."""

STAND_IN_BITS = 8
"""The width of the queue that stands for one of any width."""

ROUNDS = 12
"""More than any path passes from one unit to another."""


@dataclass(frozen=True, slots=True)
class UnitClock:
    """The longest path that ends in a unit."""

    unit: str
    ns: float
    start: str
    end: str
    statement: str  # of the vector engine's operators: which, and of which instructions


@dataclass(frozen=True, slots=True)
class Clock:
    """The longest path of each unit, longest first; the machine's clock is that of the first."""

    units: tuple[UnitClock, ...]
    script_hash: str

    @property
    def ns(self) -> float:
        return self.units[0].ns

    @property
    def mhz(self) -> float:
        return 1000 / self.ns


@dataclass(frozen=True, slots=True)
class Ports:
    """A part from outside: when its outputs settle after the clock, and what its inputs need before it, by port."""

    launch: Mapping[str, float]
    capture: Mapping[str, float]


def clock_of(machine: Machine, process: Process) -> Clock:
    """The clock of a machine. Raises PriceError where the process has no delays."""
    return MachinePaths(machine, process).found()


class MachinePaths:
    """The paths of a machine's hardware in a process, mapped and timed as a choice says.

    `children` are its units: name → key in `mapped`. `places` are the parts that repeat, by their key in `mapped`,
    where one stands for all. The key `top` is of what stands between the units.
    """

    def __init__(self, machine: Machine, process: Process, choice: HardwareChoices | None = None) -> None:
        self.machine = machine
        self._process = process
        self.synthesis = TimingSynthesis(process)
        self.texts, self.places = converted(Npu(self.machine), *REPEATED)
        self.children = {name: kind for kind, name in INSTANCE.findall(self.texts["top"]) if kind in self.texts}
        self._sources = self._texts()
        self._map(choice or HardwareChoices())

    def with_choice(self, choice: HardwareChoices) -> MachinePaths:
        """The same hardware mapped otherwise; it is not converted again."""
        other = copy(self)
        other.__dict__.pop("_users", None)  # it is of what was mapped
        other._map(choice)
        return other

    def _map(self, choice: HardwareChoices) -> None:
        self.choice = choice
        self.process = at_corner(self._process, choice.corner)
        self.static = StaticTiming(self._process, load_timing(self.process))
        self.efforts = {name: choice.efforts.get(name, choice.effort) for name in self._sources}
        made = self.synthesis.netlists(self._sources, self.efforts)
        self.mapped = {name: self.static.mapped(module) for name, module in made.items()}
        for name, kind in self.children.items():
            self.mapped[kind].prefix = f"{name}."
        self.ports = {cell: self._ports_of(cell, place) for cell, place in self.places.items()}
        self.places_of = {kind: list(self._placed(kind)) for kind in self.children.values()}

    def with_macros(self, macro_ns: Mapping[str, float]) -> MachinePaths:
        """The same with other macros."""
        other = copy(self)
        other.choice = dataclasses.replace(self.choice, macro_ns=macro_ns)
        blocks = {cell: place for cell, place in self.places.items() if isinstance(place.part, Block)}
        other.ports = {**self.ports, **{cell: other._ports_of(cell, place) for cell, place in blocks.items()}}
        return other

    def found(self) -> Clock:
        units = [*self._units(), *self._parts()]
        return Clock(tuple(sorted(units, key=lambda unit: (-unit.ns, unit.unit))), self.synthesis.script_hash)

    # -- what is mapped ------------------------------------------------------------------------------------------------

    def _texts(self) -> dict[str, tuple[str, str]]:
        """RTLIL of the top, of each unit, and of what stands for each part that repeats."""
        texts = {"top": ("top", with_boxes_inside("top", self.texts))}
        for kind in self.children.values():
            texts[kind] = (kind, with_all_inside(kind, self.texts, self.places))
        for cell, place in self.places.items():
            part = _stand_in(place, self.machine)
            if part is not None:
                own, none = converted(part)
                texts[cell] = ("top", with_all_inside("top", own, none))
        return texts

    def _ports_of(self, cell: str, place: OutlinedPart) -> Ports:
        if isinstance(place.part, Block):
            return Ports(dict.fromkeys(_names(place), self._macro_ns(cell, place.part)), {})
        if isinstance(place.part, SystolicArray):
            return Ports(dict.fromkeys(_names(place), REGISTER_NS), dict.fromkeys(_names(place), REGISTER_NS))
        module = self.mapped[cell]
        prefix = "port__" if isinstance(place.part, VectorDatapath) else ""
        registered = {net: (REGISTER_NS, "") for _, net in _bits(module, "input")}
        given = {} if isinstance(place.part, VectorDatapath) else registered
        arrived = self.static.arrivals(module, given)
        launch: dict[str, float] = {}
        for name, net in _bits(module, "output"):
            path = self.static.to_net(arrived, net)
            if path is not None:
                launch[prefix + name] = max(launch.get(prefix + name, 0.0), path.ns)
        capture: dict[str, float] = {}
        for name in {name for name, _ in _bits(module, "input")} - {"clk", "rst", "restart"}:
            nets = {net: (0.0, name) for own, net in _bits(module, "input") if own == name}
            ends = self.static.ends(module, self.static.arrivals(module, nets, from_registers=False))
            capture[prefix + name] = max((path.ns for path in ends), default=0.0)
        return Ports(launch, capture)

    def _macro_ns(self, cell: str, storage: Block) -> float:
        """When a word of a storage comes: of the macro that is chosen at the typical corner, at that of the choice."""
        sizes, ports = (1, storage.depth, kind_of(storage)[1]), storage.ports_of_macro
        most_ns = min((self.choice.macro_ns.get(name, math.inf) for name in self._users[cell]), default=math.inf)
        price = storage_price("", sizes, self.synthesis.process, ports, most_ns)
        if price is None:
            return 0.0
        macro = next(each for each in self.process.macros if each.name == price.macro.name)
        if macro.clock_to_output_ns is None:
            raise PriceError(f"{self.process.name} does not say how late {macro.name} is: no clock without that")
        return macro.clock_to_output_ns

    @cached_property
    def _users(self) -> Mapping[str, set[str]]:
        """The units in which each part that was left out stands."""
        found: dict[str, set[str]] = {cell: set() for cell in self.places}
        for name, kind in self.children.items():
            for cell in self.mapped[kind].cells.values():
                if cell["type"] in found:
                    found[cell["type"]].add(name)
        return found

    def _placed(self, kind: str) -> Iterator[tuple[str, str, Mapping[str, list[Net]]]]:
        """The type, name and connections of what was left out of a unit."""
        for name, cell in self.mapped[kind].cells.items():
            if cell["type"] in self.places:
                yield cell["type"], name, cell["connections"]

    # -- what is found -------------------------------------------------------------------------------------------------

    def _units(self) -> Iterator[UnitClock]:
        """Paths through the units as they are connected, found round by round until no input settles later."""
        top = self.mapped["top"]
        inputs: dict[str, dict[Net, tuple[float, str]]] = {name: {} for name in self.children}
        between: dict[Net, tuple[float, str]] = {net: (0.0, name) for name, net in _bits(top, "input")}
        changed = set(self.children)
        for _ in range(ROUNDS):
            for name in changed:
                between |= self._leaving(name, inputs[name])
            arrived = self.static.arrivals(top, between)
            changed = set()
            for name, kind in self.children.items():
                entering = self._entering(name, kind, arrived)
                if entering != inputs[name]:
                    inputs[name] = entering
                    changed.add(name)
            if not changed:
                break
        yield from _longest("run control", list(self.static.ends(top, arrived)))
        for name, kind in self.children.items():
            module, given = self.mapped[kind], {**inputs[name], **self._launched(name, kind)}
            arrived = self.static.arrivals(module, given)
            yield from _longest(self.unit_name(name), [_within(path, name) for path in self._ends(name, kind, arrived)])

    def unit_name(self, name: str) -> str:
        """What a report calls a unit."""
        return (
            f"memory {name}"
            if name in self.machine.memories
            else units_of(self.machine).get(NUMBER.sub("", name), name)
        )

    def _leaving(self, name: str, inputs: Mapping[Net, tuple[float, str]]) -> dict[Net, tuple[float, str]]:
        """When what a unit puts out settles, by the top's nets."""
        kind = self.children[name]
        module = self.mapped[kind]
        arrived = self.static.arrivals(module, {**inputs, **self._launched(name, kind)})
        outside = self.mapped["top"].cells[name]["connections"]
        found: Given = {}
        for port, facts in module.ports.items():
            if facts["direction"] == "output":
                for inner, outer in zip(facts["bits"], outside.get(port, ()), strict=False):
                    path = self.static.to_net(arrived, inner)
                    if path is not None and isinstance(outer, int):
                        found[outer] = (path.ns, path.start)
        return found

    def _entering(self, name: str, kind: str, arrived: Arrivals) -> dict[Net, tuple[float, str]]:
        found: Given = {}
        outside = self.mapped["top"].cells[name]["connections"]
        for port, facts in self.mapped[kind].ports.items():
            if facts["direction"] == "input":
                for inner, outer in zip(facts["bits"], outside.get(port, ()), strict=False):
                    path = self.static.to_net(arrived, outer)
                    if path is not None and isinstance(inner, int):
                        found[inner] = (path.ns, path.start)
        return found

    def _launched(self, name: str, kind: str) -> dict[Net, tuple[float, str]]:
        """What comes from the parts that were left out of a unit."""
        found: Given = {}
        for cell, own, connections in self.places_of[kind]:
            outputs = {port.name for port in self.places[cell].ports if port.is_output}
            for port, bits in connections.items():
                if port in outputs:
                    ns = self.ports[cell].launch.get(port, 0.0)
                    found |= {bit: (ns, f"{name}.{own} {_short(port)}") for bit in bits if isinstance(bit, int)}
        return found

    def _ends(self, name: str, kind: str, arrived: Arrivals) -> Iterator[Path]:
        module = self.mapped[kind]
        yield from self.static.ends(module, arrived)
        for cell, own, connections in self.places_of[kind]:
            inputs = {port.name for port in self.places[cell].ports if not port.is_output}
            for port, bits in connections.items():
                for bit in bits if port in inputs else ():
                    path = self.static.to_net(arrived, bit)
                    if path is not None:
                        ns = path.ns + self.ports[cell].capture.get(port, 0.0)
                        yield Path(ns, path.start, f"{own} {_short(port)}", path.cells)

    def _parts(self) -> Iterator[UnitClock]:
        """The array and the lanes by themselves, and each operator of a statement."""
        for cell, place in self.places.items():
            if isinstance(place.part, SystolicArray | VectorDatapath):
                module = self.mapped[cell]
                ends = list(self.static.ends(module, self.static.arrivals(module, {})))
                if isinstance(place.part, SystolicArray):
                    yield from _longest(ARRAY, ends)
                    continue
                for found in _longest(lanes_of(place.part.engine), ends):
                    yield dataclasses.replace(found, statement=statement_of(found.end, place.part.formats))


def _stand_in(place: OutlinedPart, machine: Machine) -> wiring.Component | None:
    """What a part is known by; None where its macro says all."""
    match place.part:
        case Block():
            return None
        case Memory():
            return Entries(kind_of(place.part)[0], STAND_IN_BITS)
        case SystolicArray():
            last = place.part.rows - 1
            return ProcessingElement(place.part, last, place.part.can_transpose and place.part.cols > 1)
        case VectorDatapath():
            return VectorDatapath(machine.with_lanes(1), place.part.engine)
        case _:
            raise AssertionError(place.part)


def _names(place: OutlinedPart) -> list[str]:
    return [port.name for port in place.ports]


def _bits(module: Mapped, direction: str) -> Iterator[tuple[str, Net]]:
    for name, facts in module.ports.items():
        if facts["direction"] == direction:
            yield from ((name, bit) for bit in facts["bits"] if isinstance(bit, int))


def _short(port: str) -> str:
    return port.rpartition("__")[2]


def _within(path: Path, name: str) -> Path:
    """A path with the unit's name before what is in it."""
    return Path(path.ns, path.start, f"{name}.{path.end}", path.cells)


def _longest(unit: str, paths: list[Path]) -> Iterator[UnitClock]:
    if paths:
        path = max(paths, key=lambda each: (each.ns, each.start, each.end))
        yield UnitClock(NUMBER.sub("", unit), path.ns, NUMBER.sub("", path.start), NUMBER.sub("", path.end), "")
