"""Which AXI port each DMA engine is on: what a machine file says of that must fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.key_kinds import EngineKind
from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import FETCH_PORT

PORTS = "dram.ports"


def check_ports(
    reader: ValueReader, engines: Mapping[str, Engine], ports: int, at_engines: Tree | None, at_dram: Tree | None
) -> None:
    """Every engine's port is there, every port has an engine or fetch, and at most one engine writes through each."""
    of_dma = [engine for engine in engines.values() if engine.template is Template.DMA]
    said = {engine.name: _child(_child(at_engines, engine.name), "port") for engine in of_dma}
    known = [engine for engine in of_dma if not reader.is_faulty(said[engine.name])]
    _check_stores(reader, known, at_engines)
    at_ports = _child(at_dram, "ports")
    if reader.is_faulty(at_ports):
        return
    for engine in known:
        place, port = said[engine.name], engine.dma.port
        if place is not None and port >= ports:
            there = f"0 to {ports - 1}" if ports > 1 else "0 alone"
            message = f"there is no port {port}; with {PORTS} = {ports}, ports are {there}"
            reader.complain(place.where, f"engines.{engine.name}.port", message)
    used = {FETCH_PORT, *(engine.dma.port for engine in of_dma)}
    unused = [str(port) for port in range(ports) if port not in used]
    if at_ports is not None and unused and len(known) == len(of_dma):
        message = f"nothing is on port {', '.join(unused)}; give each to a DMA engine (`port: N`), or have fewer ports"
        reader.complain(at_ports.where, PORTS, message)


def _check_stores(reader: ValueReader, engines: Sequence[Engine], at_engines: Tree | None) -> None:
    stores: dict[int, list[str]] = {}
    for engine in engines:
        if engine.dma.direction is Direction.OUT:
            stores.setdefault(engine.dma.port, []).append(engine.name)
    kind = EngineKind(Template.DMA, Direction.OUT)
    for port, names in stores.items():
        if len(names) > 1 and at_engines is not None:
            message = f"expected one {kind} on port {port}, not {len(names)}: {', '.join(names)}; beats of one port "
            message += f"cannot be mixed: give each a `port` of its own, and the machine as many {PORTS}"
            reader.complain(at_engines.where, "engines", message)


def _child(tree: Tree | None, key: str) -> Tree | None:
    return tree.value.get(key) if tree is not None and isinstance(tree.value, Mapping) else None
