"""Which unit of a machine takes the cells of an FPGA: each is synthesised alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.codesign.price.fpga import FAMILIES, Family, family_of, made
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
    modules = re.findall(rf"^module \\({re.escape(TOP)}\.[^. ]+) ", verilog, re.MULTILINE)
    each = "".join(
        f"design -load whole\n{found.synthesise} -top \\{module}\ntee -q -a out stat -json\n" for module in modules
    )
    text = made({"in.v": verilog}, f"read_verilog in.v\ndesign -save whole\n{each}")
    units = {_name(module): _cells(found, counted) for module, counted in zip(modules, _statistics(text), strict=True)}
    return dict(sorted(units.items(), key=lambda unit: -unit[1]["lut4"]))


def units_table(report: Mapping[str, Any]) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
    """A row for each unit of a report, and their sum."""
    keys = list(FAMILIES[report["family"]].cells)
    units: Mapping[str, Cells] = report["units"]
    rows = [(name, *(f"{cells[key]:,}" for key in keys)) for name, cells in units.items()]
    total = ("sum", *(f"{sum(cells[key] for cells in units.values()):,}" for key in keys))
    return "each unit, synthesised alone", ("unit", *(key.replace("_", " ") for key in keys)), [*rows, total]


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
