"""Static timing of one mapped module: when each net settles after the clock, and along which path.

Slews, loads and delays are those of the library's tables; wires have neither resistance nor capacitance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import Arc, Timing
from tilewright.codesign.price.process import Process

EDGES = ("rise", "fall")

CLOCK_SLEW_NS = 0.05

INPUT_SLEW_NS = 0.1

PORT_PF = 0.01
"""What a port, or a pin of a module inside, loads its net with: the inputs of a few cells."""

Net = int
"""The number of a bit in Yosys's JSON."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When an edge arrives at a net at the latest, how steep it is, and from where: None begins a path."""

    ns: float
    slew: float
    before: tuple[Net, str] | None
    origin: str = ""  # what begins the path


@dataclass(frozen=True, slots=True)
class Path:
    """The longest way to an endpoint: ns from the clock, with setup where it ends at a flip-flop."""

    ns: float
    start: str
    end: str
    cells: int


@dataclass(slots=True)
class Mapped:
    """A module as Yosys writes it, with what timing needs of it."""

    ports: Mapping[str, Mapping[str, Any]]
    cells: Mapping[str, Mapping[str, Any]]
    names: Mapping[Net, str]
    loads: Mapping[Net, float] = field(default_factory=dict)
    prefix: str = ""  # before the names of its registers, where a path goes on in another module


class StaticTiming:
    """Timing of mapped modules in one process."""

    def __init__(self, process: Process, timing: Timing) -> None:
        self.timing = timing
        self.cells = {cell.name: cell for cell in process.cells}
        self.flip_flops = process.flip_flops

    def mapped(self, module: Mapping[str, Any]) -> Mapped:
        """A module of Yosys's JSON."""
        found = Mapped(module["ports"], module["cells"], _names(module["netnames"]))
        loads: dict[Net, float] = defaultdict(float)
        for cell in found.cells.values():
            known = self.cells.get(cell["type"])
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] != "input":
                    continue
                for bit in bits:
                    loads[bit] += self.timing.capacitance(known.name, pin) if known else PORT_PF
        for port in found.ports.values():
            if port["direction"] == "output":
                for bit in port["bits"]:
                    loads[bit] += PORT_PF
        found.loads = loads
        return found

    def arrivals(
        self, module: Mapped, given: Mapping[Net, tuple[float, str]], from_registers: bool = True
    ) -> dict[tuple[Net, str], Arrival]:
        """The arrivals at all nets that a path reaches from flip-flops, or from nets that are given with a name."""
        arrived: dict[tuple[Net, str], Arrival] = {}
        for net, (ns, origin) in given.items():
            for edge in EDGES:
                arrived[net, edge] = Arrival(ns, INPUT_SLEW_NS, None, origin)
        gates: dict[str, Mapping[str, Any]] = {}
        for name, cell in module.cells.items():
            if cell["type"] in self.flip_flops:
                if from_registers:
                    self._launch(module, cell, arrived)
            elif cell["type"] in self.cells:
                gates[name] = cell
        for cell in in_order(gates):
            self._pass(module, cell, arrived)
        return arrived

    def _launch(self, module: Mapped, cell: Mapping[str, Any], arrived: dict[tuple[Net, str], Arrival]) -> None:
        for pin, (net,) in cell["connections"].items():
            if cell["port_directions"][pin] != "output":
                continue
            for arc in self.timing.arcs_to(cell["type"], pin):
                if arc.kind == "clock":
                    load = module.loads.get(net, 0.0)
                    ns, slew = arc.delay(CLOCK_SLEW_NS, load), arc.transition(CLOCK_SLEW_NS, load)
                    arrived[net, arc.edge] = Arrival(
                        ns, slew, None, module.prefix + module.names.get(net, f"net {net}")
                    )

    def _pass(self, module: Mapped, cell: Mapping[str, Any], arrived: dict[tuple[Net, str], Arrival]) -> None:
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "output" and bits:
                for arc in self.timing.arcs_to(cell["type"], pin):
                    self._follow(module, arc, cell["connections"][arc.source][0], bits[0], arrived)

    def _follow(
        self, module: Mapped, arc: Arc, source: Net, target: Net, arrived: dict[tuple[Net, str], Arrival]
    ) -> None:
        load = module.loads.get(target, 0.0)
        for edge in arc.source_edges:
            before = arrived.get((source, edge))
            if before is None:
                continue
            ns = before.ns + arc.delay(before.slew, load)
            latest = arrived.get((target, arc.edge))
            if latest is None or ns > latest.ns:
                arrived[target, arc.edge] = Arrival(ns, arc.transition(before.slew, load), (source, edge))

    def ends(self, module: Mapped, arrived: Mapping[tuple[Net, str], Arrival]) -> Iterator[Path]:
        """The longest path to each flip-flop."""
        for cell in module.cells.values():
            if cell["type"] not in self.flip_flops:
                continue
            name = next(
                (
                    module.names[bits[0]]
                    for pin, bits in cell["connections"].items()
                    if bits and bits[0] in module.names and cell["port_directions"][pin] == "output"
                ),
                "a register",
            )
            for pin, bits in cell["connections"].items():
                for arc in self.timing.arcs_to(cell["type"], pin):
                    last = arrived.get((bits[0], arc.edge))
                    if arc.kind == "setup" and last is not None:
                        yield _path(arrived, (bits[0], arc.edge), name, arc.delay(last.slew, CLOCK_SLEW_NS))

    def to_net(self, arrived: Mapping[tuple[Net, str], Arrival], net: Net) -> Path | None:
        """The longest path to a net, or None if none leads there."""
        ends = [(net, edge) for edge in EDGES if (net, edge) in arrived]
        return max((_path(arrived, end, "", 0.0) for end in ends), key=lambda path: path.ns, default=None)


def _path(arrived: Mapping[tuple[Net, str], Arrival], end: tuple[Net, str], name: str, setup: float) -> Path:
    cells, step = 0, arrived[end]
    while step.before is not None:
        cells, step = cells + 1, arrived[step.before]
    return Path(arrived[end].ns + setup, step.origin, name, cells)


def in_order(gates: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Gates, each after those whose outputs it takes. Raises PriceError for a loop."""
    driver = {
        bit: name
        for name, cell in gates.items()
        for pin, bits in cell["connections"].items()
        if cell["port_directions"][pin] == "output"
        for bit in bits
    }
    missing, users = {}, defaultdict(list)
    for name, cell in gates.items():
        drivers = {driver[bit] for bits in cell["connections"].values() for bit in bits if bit in driver} - {name}
        missing[name] = len(drivers)
        for other in drivers:
            users[other].append(name)
    ready, order = [name for name, count in missing.items() if count == 0], []
    while ready:
        name = ready.pop()
        order.append(gates[name])
        for user in users[name]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if len(order) != len(gates):
        raise PriceError("a netlist has a loop without a flip-flop, which has no timing")
    return order


def _names(netnames: Mapping[str, Mapping[str, Any]]) -> dict[Net, str]:
    """The best name of each bit: one that the hardware's source gives, and of these the shortest."""
    best: dict[Net, tuple[tuple[int, int, str], str]] = {}
    for name, facts in netnames.items():
        rank = (int(facts["hide_name"]) + ("$" in name), len(name), name)
        bits: Sequence[Any] = facts["bits"]
        for position, bit in enumerate(bits):
            if isinstance(bit, int) and (bit not in best or rank < best[bit][0]):
                best[bit] = (rank, name if len(bits) == 1 else f"{name}[{position}]")
    return {bit: name for bit, (_, name) in best.items()}
