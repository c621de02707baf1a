"""A chip's flow: a configuration for LibreLane, the SRAM macros that a machine needs, and what each should be near.

https://librelane.readthedocs.io/en/stable/reference/configuration.html
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.isa.machine.machine import Machine
from tilewright.rtl.constraints import CLOCK_PORT, clock_constraints
from tilewright.rtl.integration import split_files
from tilewright.rtl.memory_wrappers import MACRO, WRAPPER, Size, macro_name, macro_place
from tilewright.rtl.verilog import TOP, VerilogDesign

CORE_UTILISATION_PERCENT = 40
"""LibreLane's is 50; macros at the edges, and the wires to them, want more room."""

VIEWS = {"gds": ".gds", "lef": ".lef", "vh": ".v"}
"""Files of a macro: its layout, its outline with pins, and its Verilog without a body."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A macro in the machine: its size, and its name in the flattened design, with the parts around it before it."""

    size: Size
    name: str

    @property
    def part(self) -> str:
        """The part of the top module in which it is."""
        return self.name.partition(".")[0]


def asic_files(machine: Machine, netlist: VerilogDesign, clock_mhz: float) -> dict[str, str]:
    """By path: the modules, `config.json` and `macros.json` for LibreLane, constraints, and `macros.csv` for people."""
    files = split_files(machine, netlist)
    prefix = _prefix(netlist)
    constraints = f"{netlist.top}.sdc"
    sources = [*(f"{name}.sv" for name in netlist.modules), f"macro/{prefix}{WRAPPER}.sv"]
    config = {
        "meta": {"version": 2, "flow": "Classic"},
        "DESIGN_NAME": netlist.top,
        "VERILOG_FILES": [f"dir::{name}" for name in sources],
        "USE_SLANG": True,
        "CLOCK_PORT": CLOCK_PORT,
        "CLOCK_PERIOD": round(1000 / clock_mhz, 3),
        "PNR_SDC_FILE": f"dir::{constraints}",
        "SIGNOFF_SDC_FILE": f"dir::{constraints}",
        "FP_CORE_UTIL": CORE_UTILISATION_PERCENT,
    }
    found = sorted(instances(netlist), key=lambda each: (each.size, each.name))
    return {
        **files,
        "config.json": _json(config),
        "macros.json": _json({"meta": config["meta"], "MACROS": _macros(prefix, found)}),
        "macros.csv": _hints(machine, prefix, found),
        constraints: clock_constraints(CLOCK_PORT, clock_mhz)["sdc"],
    }


def instances(netlist: VerilogDesign) -> Iterator[Instance]:
    """The block memories of a netlist, where each is."""
    wrapper = re.compile(rf"^  {_prefix(netlist)}{WRAPPER} #\(\.WIDTH\((\d+)\), \.DEPTH\((\d+)\)\) (\w+) \(", re.M)
    inner = re.compile(r"^  (\w+) (\w+) \($", re.M)

    def below(module: str, path: tuple[str, ...]) -> Iterator[Instance]:
        text = netlist.modules[module]
        for width, depth, name in wrapper.findall(text):
            size = Size(int(depth), int(width))
            yield Instance(size, ".".join((*path, name, macro_place(size), MACRO)))
        for kind, name in inner.findall(text):
            if kind in netlist.modules:
                yield from below(kind, (*path, name))

    return below(netlist.top, ())


def _macros(prefix: str, found: list[Instance]) -> dict[str, object]:
    """Each macro, where its files are to be put, and its instances, which the flow places where nobody says."""
    return {
        macro_name(prefix, size): {
            **{view: [f"dir::macros/{macro_name(prefix, size)}{end}"] for view, end in VIEWS.items()},
            "lib": {"*": [f"dir::macros/{macro_name(prefix, size)}.lib"]},
            "instances": {each.name: {"location": None, "orientation": "N"} for each in found if each.size == size},
        }
        for size in sorted({each.size for each in found})
    }


def _hints(machine: Machine, prefix: str, found: list[Instance]) -> str:
    """A line for each instance: instances of one part belong side by side, and near the engines that use it."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("macro", "words", "bits", "instance", "part", "near"))
    for each in found:
        near = " ".join(_users(machine, each.part))
        rows.writerow((macro_name(prefix, each.size), each.size.depth, each.size.width, each.name, each.part, near))
    return text.getvalue()


def _users(machine: Machine, part: str) -> list[str]:
    """The engines that read or write a memory; none of another part."""
    users = {of.engine.name for of in machine.formats.values() for operand in of.operands if operand.memory == part}
    return [engine for engine in machine.engines if engine in users]


def _prefix(netlist: VerilogDesign) -> str:
    return netlist.top.removesuffix(TOP)


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
