"""Which unit of a machine takes the cells of an FPGA, and which its cycle: each is synthesised and placed alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.codesign.price.fpga import FAMILIES, Family, estimated_clock, family_of, made
from tilewright.codesign.price.nextpnr import nextpnr_version
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.verilog import TOP, emit_verilog

Cells = Mapping[str, int]
"""How many of each kind, by key of `Family.cells`."""


def cells_by_unit(machine: Machine, family: str) -> dict[str, Cells]:
    """The cells of each module right below the top, the largest first; the results are kept in the cache.

    Alone, a unit has ports where the whole machine has gates to share with its neighbours, so the units add up to more
    than the machine. Raises PriceError for a family that is not known, and for a tool that is missing or gives up.
    """
    found = family_of(family)
    verilog = emit_verilog(machine)
    modules = _modules(verilog)
    each = "".join(
        f"design -load whole\n{found.synthesise} -top \\{module}\ntee -q -a out stat -json\n" for module in modules
    )
    text = made({"in.v": verilog}, f"read_verilog in.v\ndesign -save whole\n{each}")
    units = {_name(module): _cells(found, counted) for module, counted in zip(modules, _statistics(text), strict=True)}
    return dict(sorted(units.items(), key=lambda unit: -unit[1]["lut4"]))


def clocks_by_unit(
    machine: Machine, family: str, seed: int, options: Sequence[str] = ()
) -> Iterator[tuple[str, float]]:
    """The clock in MHz that each unit with registers is estimated to reach alone, as `estimated_clock_of` a machine.

    Alone, a unit begins and ends its paths itself and has the whole device: in the machine, it is slower. Raises
    PriceError as `estimated_clock_of` does.
    """
    found, verilog = family_of(family), emit_verilog(machine)
    nextpnr_version()
    for module in _modules(verilog):
        netlist = made({"in.v": verilog}, f"read_verilog in.v\n{found.synthesise} -top \\{module}\nwrite_json out")
        if "clk" in json.loads(netlist)["modules"][module]["ports"]:
            yield _name(module), estimated_clock(found, netlist, module, seed, options)


def units_table(report: Mapping[str, Any]) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
    """A row for each unit of a report, and their sum."""
    keys = list(FAMILIES[report["family"]].cells)
    units: Mapping[str, Cells] = report["units"]
    rows = [(name, *(f"{cells[key]:,}" for key in keys)) for name, cells in units.items()]
    total = ("sum", *(f"{sum(cells[key] for cells in units.values()):,}" for key in keys))
    return "each unit, synthesised alone", ("unit", *(key.replace("_", " ") for key in keys)), [*rows, total]


def _modules(verilog: str) -> list[str]:
    """The modules right below the top."""
    return re.findall(rf"^module \\({re.escape(TOP)}\.[^. ]+) ", verilog, re.MULTILINE)


def _name(module: str) -> str:
    """`npu.counters$380` is the module of unit counters."""
    return module.removeprefix(f"{TOP}.").split("$")[0]


def _statistics(text: str) -> Iterator[Mapping[str, int]]:
    """Cells by type, from one JSON value of Yosys after the other."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text.rstrip()):
        value, place = decoder.raw_decode(text, place)
        yield value["design"]["num_cells_by_type"]
        place += len(text[place:]) - len(text[place:].lstrip())


def _cells(family: Family, counted: Mapping[str, int]) -> Cells:
    return {key: counted.get(cell, 0) for key, cell in family.cells.items()}
