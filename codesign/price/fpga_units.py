"""Which unit of a machine takes the cells of an FPGA, and which its cycle: each is synthesised and placed alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.codesign.price.fpga import estimated_clock, made
from tilewright.codesign.price.fpga_family import FAMILIES, Family, cells_of, family_of
from tilewright.codesign.price.nextpnr import nextpnr_version
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.verilog import TOP, netlist

Cells = Mapping[str, int]
"""How many of each kind, by key of `Family.cells`."""


def cells_by_unit(machine: Machine, family: str) -> dict[str, Cells]:
    """The cells of each module right below the top, the largest first; the results are kept in the cache.

    Alone, a unit has ports where the whole machine has gates to share with its neighbours, so the units add up to more
    than the machine. Raises PriceError for a family that is not known, and for a tool that is missing or gives up.
    """
    found = family_of(family)
    modules, _ = _synthesised(machine, found)
    units = {_name(module): cells_of(found, contents) for module, contents in modules.items()}
    return dict(sorted(units.items(), key=lambda unit: -unit[1]["lut4"]))


def clocks_by_unit(
    machine: Machine, family: str, seeds: Sequence[int], options: Sequence[str] = ()
) -> Iterator[tuple[str, list[float]]]:
    """The clocks in MHz, by seed, that each unit with registers is estimated to reach alone.

    Alone, a unit begins and ends its paths itself and has the whole device: in the machine, it is slower. Raises
    PriceError as `estimated_clock_of` does.
    """
    found = family_of(family)
    nextpnr_version()  # before minutes of synthesis
    units, cells = _synthesised(machine, found)
    for module, contents in units.items():
        if "clk" in contents["ports"]:
            text = json.dumps({"modules": {**cells, module: contents}})
            yield _name(module), [estimated_clock(found, text, module, seed, options) for seed in seeds]


def units_table(report: Mapping[str, Any]) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
    """A row for each unit of a report, and their sum."""
    keys = list(FAMILIES[report["family"]].cells)
    units: Mapping[str, Cells] = report["units"]
    rows = [(name, *(f"{cells[key]:,}" for key in keys)) for name, cells in units.items()]
    total = ("sum", *(f"{sum(cells[key] for cells in units.values()):,}" for key in keys))
    return "each unit, synthesised alone", ("unit", *(key.replace("_", " ") for key in keys)), [*rows, total]


Modules = dict[str, Mapping[str, Any]]
"""By name, as in Yosys's JSON."""


def _synthesised(machine: Machine, family: Family) -> tuple[Modules, Modules]:
    """The modules right below the top, each synthesised alone; and those of the family's cells."""
    design = netlist(machine)
    modules = re.findall(rf"^  ({TOP}_\w+) \w+ ?\(", design.modules[TOP], re.MULTILINE)
    lines = ["read_verilog -sv in.v", "design -save whole"]
    for number, module in enumerate(modules):
        lines += ["design -load whole", f"{family.synthesise} -top {module}", f"design -save {number}"]
    # The last one is still there, and the cells with it.
    lines += [f"design -copy-from {number} -as {module} {module}" for number, module in enumerate(modules[:-1])]
    whole = json.loads(made({"in.v": design.text("fpga")}, "\n".join([*lines, "write_json out"])))["modules"]
    return {module: whole.pop(module) for module in modules}, whole


def _name(module: str) -> str:
    """`npu_vec` is the module of unit vec."""
    return module.removeprefix(f"{TOP}_")
