"""Fingerprints of the hardware of the shipped machines, whatever its signals and units are called.

python -m tests.netlists > before.txt        # every shipped machine
python -m tests.netlists tiny8 base16        # these

A line is a machine, how many cells its netlist has, and the first sixteen digits of a SHA-256: of the ports by name,
and of the circuit between them. Two revisions with equal lines have equal hardware; compare them with `diff`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from amaranth.hdl import Fragment
from amaranth.hdl._ir import build_netlist
from amaranth.hdl._nir import Assignment, Cell, Memory, Net, Netlist, Top, Value
from amaranth.lib import wiring

UNNAMED = frozenset({"module_idx", "src_loc", "name", "attributes"})
"""What a cell carries beside its circuit."""


def main() -> None:
    """Print the fingerprints of the machines named, or of all."""
    from tilewright.isa.files.loader import load_machine, shipped_machines
    from tilewright.rtl.npu import Npu

    machines = list(shipped_machines())
    parser = argparse.ArgumentParser(prog="python -m tests.netlists", description="Hashes of the hardware.")
    parser.add_argument("names", nargs="*", metavar="MACHINE", help="shipped machines; default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(machines):
        sys.exit(f"no machine {min(unknown)!r}; there are: {', '.join(machines)}")
    for name in arguments.names or machines:
        cells, digest = fingerprint(Npu(load_machine(name)))
        print(f"{name:12} {cells:8} {digest[:16]}", flush=True)


def fingerprint(component: wiring.Component) -> tuple[int, str]:
    """How many cells a component's netlist has, and a hash of its ports by name and of the circuit between them.

    The order of cells, their names and the modules that they stand in do not count. Cells are told apart by colour
    refinement: each begins with its kind and settings, and takes on the colours of what it reads, until no more
    cells differ.
    """
    netlist = _netlist(component)
    colours = [_digest(_settings(cell)) for cell in netlist.cells]
    while True:
        finer = [_digest(colours[at], *_inputs(cell, colours)) for at, cell in enumerate(netlist.cells)]
        if len(set(finer)) == len(set(colours)):
            return len(finer), _digest(*sorted(finer))
        colours = finer


def _netlist(component: wiring.Component) -> Netlist:
    """The flat netlist; its ports are the component's, by their paths, and the clock and reset."""
    ports = [("__".join(map(str, path)), value, None) for path, _, value in component.signature.flatten(component)]
    return build_netlist(Fragment.get(component, None), ports=ports)


def _settings(cell: Cell) -> str:
    """A cell's kind and everything of it but what it reads."""
    facts = {name: value for name, value in vars(cell).items() if name not in UNNAMED}
    plain = {name: value for name, value in facts.items() if not isinstance(value, Net | Value | tuple | dict)}
    if isinstance(cell, Top):
        plain |= {"in": sorted((name, width) for name, (_, width) in cell.ports_i.items())}
        plain |= {"out": sorted((name, len(value)) for name, value in cell.ports_o.items())}
    if isinstance(cell, Memory):
        plain |= {"init": cell.init}
    plain.pop("memory", None)  # of a port: a cell, whose colour is an input
    plain |= {name: value for name, value in facts.items() if name == "patterns"}
    return f"{type(cell).__name__} {sorted(plain.items())}"


def _inputs(cell: Cell, colours: list[str]) -> Iterator[str]:
    """What a cell reads, each part by its role and the colours of the cells that it comes from."""
    for name, value in sorted(vars(cell).items()):
        if name == "memory" or (name == "transparent_for"):
            yield f"{name} {[colours[at] for at in ([value] if isinstance(value, int) else value)]}"
        elif name == "ports_o":
            yield from (f"{port} {_read(nets, cell, colours)}" for port, nets in sorted(value.items()))
        elif name not in UNNAMED:
            yield f"{name} {_read(value, cell, colours)}"


def _read(value: Any, cell: Cell, colours: list[str]) -> str:
    """Nets as the colours of their cells and their bits; those of a port, by the port's name."""
    if isinstance(value, Net):
        if value.is_const:
            return str(value.const)
        return f"{colours[value.cell]}.{value.bit}"
    if isinstance(value, Assignment):
        return f"[{value.start} {_read(value.cond, cell, colours)} {_read(value.value, cell, colours)}]"
    if isinstance(value, tuple | list):
        return " ".join(_read(each, cell, colours) for each in value)
    return ""


def _digest(*texts: str) -> str:
    hashed = sha256()
    for text in texts:
        hashed.update(text.encode())
        hashed.update(b"\n")
    return hashed.hexdigest()


if __name__ == "__main__":
    main()
