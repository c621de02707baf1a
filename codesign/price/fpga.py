"""What a machine takes of an FPGA: its cells after synthesis and, placed and routed, its clock."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.fpga_family import FAMILIES, Family, cells_of, family_of, places_of
from tilewright.codesign.price.fpga_pins import JOIN, pins
from tilewright.codesign.price.fpga_registers import with_cell_registers
from tilewright.codesign.price.nextpnr import estimated_clock_mhz, nextpnr_version, run_nextpnr
from tilewright.codesign.progress import Progress, silent
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.verilog import TOP, emit_verilog
from tilewright.rtl.yosys import YosysError, run_script, yosys_version

TIMING_WEIGHT = 40
"""How much nextpnr's placer minds late wires beside long ones; 10 is its own choice. docs/price.md compares them."""

PLACE_OPTIONS = ("--freq", "100", "--timing-allow-fail", "--lpf-allow-unconstrained")
"""A frequency to try for, which it need not reach."""

ESTIMATE_OPTIONS = ("--placer-heap-timingweight", str(TIMING_WEIGHT))
"""Of nextpnr's usual placer, HeAP, with which designs are compared before they are routed."""

ROUTE_OPTIONS = ("--placer", "static", "--router", "router2")
"""The placer whose placements can be routed, and the router that comes to an end: docs/price.md compares them."""

SEED = 1
"""Of a placement, so that every run gives the same clock."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A machine on a device: the clock that it reaches there, after routing."""

    clock_mhz: float
    longest_path: tuple[str, str]  # where it begins and where it ends
    nextpnr: str
    used: Mapping[str, tuple[int, int]]  # a kind of cell of the device → how many are used, of how many
    left_empty: int  # places for LUTs in rows that stay empty, so that there are wires for the others


@dataclass(frozen=True, slots=True)
class FpgaPrice:
    """The cells of a machine in a family of FPGAs, memories included, and what it reaches where it was placed.

    `placed`: by speed grade, the slowest first; none where it was not asked for.
    """

    machine: Machine
    family: Family
    yosys: str
    cells: Mapping[str, int]  # by key of `Family.cells`
    placed: Mapping[str, Placed] = field(default_factory=dict)


def price_fpga(machine: Machine, family: str, place: bool = False, progress: Progress = silent) -> FpgaPrice:
    """Synthesise a machine, and place and route it if asked: minutes, whose results are kept in the cache.

    `progress` shows what is done. Raises PriceError for a family that is not known, and for a tool that is missing or
    gives up.
    """
    found = family_of(family)
    if place:
        nextpnr_version()  # before minutes of synthesis
    with progress(f"synthesising {machine.name}"):
        netlist = _synthesised(machine, found)
    placed = {}
    for grade in found.device.grades if place else ():
        with progress(f"placing and routing {machine.name} at speed grade {grade}, minutes"):
            placed[grade] = routed(found, netlist, grade=grade)
    return FpgaPrice(machine, found, _version(), cells_of(found, _top(netlist, TOP)), placed)


def fpga_report(price: FpgaPrice) -> dict[str, Any]:
    """The price as plain values, ready for JSON."""
    placed = next(iter(price.placed.values()), None)  # at the slowest grade
    return {
        "isa": price.machine.name,
        "isa_hash": price.machine.hash,
        "family": price.family.name,
        "basis": {
            "state": "synthesised, not placed" if placed is None else "placed and routed",
            "yosys": price.yosys,
            "script": price.family.synthesise,
            "nextpnr": placed and placed.nextpnr,
            "device": placed and price.family.device.name,
            "speed_grade": next(iter(price.placed), None),
            "ports": placed and "behind a shift register: a package has too few pins for them",
        },
        **price.cells,
        "clock_mhz": placed and round(placed.clock_mhz, 2),
        "clock_mhz_by_grade": {grade: round(each.clock_mhz, 2) for grade, each in price.placed.items()},
        "longest_path": placed and dict(zip(("from", "to"), placed.longest_path, strict=True)),
        "device_cells": {
            name: {"used": used, "available": available}
            for name, (used, available) in (placed.used if placed else {}).items()
        },
        "left_empty": placed and placed.left_empty,
    }


def fpga_table(report: Mapping[str, Any]) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
    """A row for each kind of cell, and what it rests on."""
    basis = report["basis"]
    rows: list[tuple[str, str]] = [(key, f"{report[key]:,}") for key in FAMILIES[report["family"]].cells]
    for name, cells in report["device_cells"].items():
        rows.append((f"{name} of the device", f"{cells['used']:,} of {cells['available']:,}"))
    if report["clock_mhz"] is not None:
        path = report["longest_path"]
        rows += [
            *((f"clock, speed grade {grade}", f"{mhz:.1f} MHz") for grade, mhz in report["clock_mhz_by_grade"].items()),
            ("longest path", f"from {path['from']} to {path['to']}"),
            ("device", basis["device"]),
            ("left empty", f"{report['left_empty']:,} places for LUTs, whose wires are for the others"),
            ("ports", basis["ports"]),
        ]
    tools = f"Yosys {basis['yosys']}, {basis['script']}"
    rows += [
        ("state", basis["state"]),
        ("tools", tools + (f"; nextpnr {basis['nextpnr']}" if basis["nextpnr"] else "")),
    ]
    return f"{report['isa']} on {report['family']}", ("figure", "value"), rows


# -- synthesis ---------------------------------------------------------------------------------------------------------


def _version() -> str:
    try:
        return yosys_version()
    except YosysError as error:
        raise PriceError(str(error)) from error


def _synthesised(machine: Machine, family: Family) -> str:
    """The netlist of a machine in the family's cells, as Yosys's JSON; from the Verilog that a user would take.

    Registers that its cells have are taken for those beside them, as the maker's tools do.
    """
    files = {"in.v": emit_verilog(machine, "fpga")}
    mapped = made(files, f"read_verilog -sv in.v\n{family.synthesise} -top {TOP}\nwrite_json out")
    return with_cell_registers(mapped, TOP)


def made(files: Mapping[str, str], script: str) -> str:
    """What Yosys writes to `out`; made once for the same files, script and version."""

    def run() -> str:
        try:
            return run_script(files, script)
        except YosysError as error:
            raise PriceError(str(error)) from error

    return _once((sorted(files.items()), script, _version()), run)


def _once(asked: object, answer: Callable[[], str]) -> str:
    """What a tool answers; it is kept by all that the answer follows from."""
    key = hashlib.sha256(repr(asked).encode()).hexdigest()

    def make(folder: Path) -> Path:
        (folder / "out").write_text(answer())
        return folder / "out"

    return kept(cache_folder() / "fpga" / key[:2] / f"{key}.json", make).read_text()


def _top(netlist: str, name: str) -> Mapping[str, Any]:
    return json.loads(netlist)["modules"][name]


# -- place and route ---------------------------------------------------------------------------------------------------


def routed_clock_of(machine: Machine, family: str, seed: int, options: Sequence[str] = ()) -> float:
    """The clock in MHz that a machine reaches with a seed, placed and routed; kept in the cache.

    `options` of nextpnr come in place of our own of the same name. Raises PriceError as `price_fpga` does.
    """
    return routed(*_synthesised_to_place(machine, family), seed, options).clock_mhz


def routed(
    family: Family, netlist: str, seed: int = SEED, options: Sequence[str] = (), grade: str | None = None
) -> Placed:
    """A machine's netlist, placed and routed, at the slowest speed grade if none is said.

    Raises PriceError when nextpnr is missing or gives up.
    """
    device = family.device
    empty = device.empty_places(places_of(family, cells_of(family, _top(netlist, TOP))))
    asked = _replaced((*_place_options(family, seed, grade), *ROUTE_OPTIONS), options)
    report = _kept("routed", _with_pins(netlist, empty=empty), asked, run_nextpnr, device.sites)
    clocks = [clock["achieved"] for clock in report["fmax"].values()]
    if not clocks:
        raise PriceError("nextpnr reports no clock; expected that of the machine")
    used = {name: (cells["used"], cells["available"]) for name, cells in report["utilization"].items() if cells["used"]}
    if empty:
        filled, available = used[device.place_kind]
        used[device.place_kind] = filled - len(empty), available
    return Placed(min(clocks), longest_path(report), nextpnr_version(), used, len(empty))


def estimated_clock_of(machine: Machine, family: str, seed: int, options: Sequence[str] = ()) -> float:
    """The clock in MHz that a placement with a seed is estimated to reach before it is routed, as `routed_clock_of`.

    The placement is one with all rows and any pins, which need not be one that can be routed.
    """
    return estimated_clock(*_synthesised_to_place(machine, family), TOP, seed, options)


def estimated_clock(family: Family, netlist: str, module: str, seed: int = SEED, options: Sequence[str] = ()) -> float:
    """As `estimated_clock_of`, of a module's netlist. Raises PriceError when nextpnr is missing or gives up."""
    asked = _replaced((*_place_options(family, seed), *ESTIMATE_OPTIONS), options)
    return _kept("placed", _with_pins(netlist, module), asked, estimated_clock_mhz)


def _synthesised_to_place(machine: Machine, family: str) -> tuple[Family, str]:
    """A family, and the netlist of a machine in its cells."""
    found = family_of(family)
    nextpnr_version()  # before minutes of synthesis
    return found, _synthesised(machine, found)


def _place_options(family: Family, seed: int, grade: str | None = None) -> tuple[str, ...]:
    device = family.device
    return (*device.options, "--speed", grade or device.grades[0], *PLACE_OPTIONS, "--seed", str(seed))


def _replaced(own: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Options with others in place of those of the same name: nextpnr refuses one that is given twice."""
    names = {word.split("=")[0] for word in others}
    kept, keeps = [], True
    for word in own:
        keeps = word not in names if word.startswith("--") else keeps
        if keeps:
            kept.append(word)
    return (*kept, *others)


def _kept(state: str, netlist: str, options: Sequence[str], run: Callable[..., Any], *others: object) -> Any:
    """What nextpnr says of a netlist; asked once for the same netlist, options, version and `others` of the run."""
    asked = state, netlist, options, nextpnr_version(), others
    return json.loads(_once(asked, lambda: json.dumps(run(netlist, options, *others))))


def _with_pins(netlist: str, module: str = TOP, empty: Sequence[str] = ()) -> str:
    return made({"in.json": netlist, "pins.v": pins(_top(netlist, module)["ports"], module, empty)}, JOIN)


def longest_path(report: Mapping[str, Any]) -> tuple[str, str]:
    """The ends of the path that sets the clock: of those within a clock, nextpnr names one for each clock."""
    paths = [path for path in report["critical_paths"] if path["from"] == path["to"]]
    steps = max((path["path"] for path in paths), key=lambda path: sum(step["delay"] for step in path))
    return register_of(steps[0]["from"]["cell"]), register_of(steps[-1]["to"]["cell"])


def register_of(cell: str) -> str:
    """`machine.load.bursts.consumed_TRELLIS_FF_Q_1` is of register `load.bursts.consumed`."""
    return re.split(r"_(?:TRELLIS|LUT4|CCU2C|PFUMX|L6MUX|MULT|DP16KD)|\$|\.\d", cell.removeprefix("machine."))[0]
