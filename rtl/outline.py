"""Netlists in which chosen parts are left out, each an empty place with the part's ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Elaboratable, Instance, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out


@dataclass(frozen=True, slots=True)
class PlacePort:
    """A port of a part that was left out, seen from the part."""

    name: str
    bits: int
    is_output: bool


@dataclass(frozen=True, slots=True)
class OutlinedPart:
    """Where a part was left out: the type of the cell that stands there, the part itself, and its ports."""

    cell: str
    part: wiring.Component
    ports: tuple[PlacePort, ...]


class Outline:
    """A platform for `rtlil.convert` on which parts of the given classes become cells of types of their own.

    After the conversion `places` holds what was left out. A part asks `outlined` at the head of its `elaborate`;
    for storage Amaranth does so itself, which calls `get_memory`.
    """

    def __init__(self, *left_out: type) -> None:
        self._left_out = left_out
        self.places: list[OutlinedPart] = []

    def leaves_out(self, part: wiring.Component) -> bool:
        return isinstance(part, self._left_out)

    def get_memory(self, memory: Memory) -> Elaboratable:
        if not self.leaves_out(memory):
            return memory.elaborate(None)
        reads = {f"read{i}": port for i, port in enumerate(memory.read_ports)}
        writes = {f"write{i}": port for i, port in enumerate(memory.write_ports)}
        return self._place(memory, {**reads, **writes})

    def place(self, part: wiring.Component) -> Elaboratable:
        """The empty place of a part."""
        return self._place(part, {"port": part})

    def _place(self, part: wiring.Component, interfaces: Mapping[str, wiring.PureInterface]) -> Elaboratable:
        cell, ports, connections = f"place{len(self.places)}", [], {}
        for prefix, interface in interfaces.items():
            for path, member, value in interface.signature.flatten(interface):
                name, wire, is_output = "__".join([prefix, *map(str, path)]), Value.cast(value), member.flow is Out
                ports.append(PlacePort(name, len(wire), is_output))
                connections[f"{'o' if is_output else 'i'}_{name}"] = wire
        self.places.append(OutlinedPart(cell, part, tuple(ports)))
        return Instance(cell, **connections)


def outlined(part: wiring.Component, platform: object) -> Elaboratable | None:
    """The empty place of a part that the platform leaves out; None if it wants the part itself."""
    return platform.place(part) if isinstance(platform, Outline) and platform.leaves_out(part) else None
