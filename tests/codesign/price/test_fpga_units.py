"""Each unit right below the top is synthesised alone and has the cells of its own logic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price import fpga, fpga_pins, fpga_units
from tilewright.codesign.price.fpga_family import family_of
from tilewright.codesign.price.fpga_units import cells_by_unit, clocks_by_unit, units_table
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.memory_wrappers import wrapper_files
from tilewright.rtl.verilog import VerilogDesign

TEXT = """\
module npu(input clk, input [4:0] d, output [4:0] q, input [1:0] a, output y);
  npu_stage stage(.clk(clk), .d(d), .q(q));
  npu_gates gates(.a(a), .y(y));
endmodule
module npu_stage (input clk, input [4:0] d, output reg [4:0] q); always @(posedge clk) q <= d; endmodule
module npu_gates_deep (input [1:0] a, output y); assign y = ^a; endmodule
module npu_gates (input [1:0] a, output y); npu_gates_deep part(.a(a), .y(y)); endmodule
"""

MODULES = {text.split("(")[0].strip(): f"module {text}" for text in TEXT.split("module ") if text}


@pytest.fixture(autouse=True)
def small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two units stand for the hardware of any machine: five flip-flops, and a gate in a module of its own."""
    monkeypatch.setattr(fpga, "cache_folder", lambda: tmp_path)
    design = VerilogDesign(MODULES, frozenset(), wrapper_files("", []))
    monkeypatch.setattr(fpga_units, "netlist", lambda machine: design)


@pytest.mark.slow
def test_units_have_the_cells_of_their_logic() -> None:
    units = cells_by_unit(load_machine("tiny8"), "ecp5")
    counts = {name: (cells["lut4"], cells["flip_flops"]) for name, cells in units.items()}
    assert list(counts.items()) == [("gates", (1, 0)), ("stage", (0, 5))]
    _, header, rows = units_table({"family": "ecp5", "units": units})
    assert header[:3] == ("unit", "lut4", "flip flops")
    assert [row[:3] for row in rows] == [("gates", "1", "0"), ("stage", "0", "5"), ("sum", "1", "5")]


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(PriceError, match=r"^--fpga is 'ice40'; expected one of: ecp5$"):
        cells_by_unit(load_machine("tiny8"), "ice40")


@pytest.mark.slow
def test_units_with_registers_are_placed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Sequence[str]] = []

    def estimate(netlist: str, options: Sequence[str]) -> float:
        given.append(options)
        cells = json.loads(netlist)["modules"][fpga_pins.PINS]["cells"].values()
        assert all("port_directions" in cell for cell in cells), "nextpnr refuses it without"
        return float(sum(cell["type"] == "TRELLIS_FF" for cell in cells))

    monkeypatch.setattr(fpga, "estimated_clock_mhz", estimate)
    for module in (fpga, fpga_units):
        monkeypatch.setattr(module, "nextpnr_version", lambda: "0.1")
    clocks = list(clocks_by_unit(load_machine("tiny8"), "ecp5", [7, 9], ["--placer", "static"]))
    assert clocks == [("stage", [5.0 + 5 + 5] * 2)]  # its own, and those at its inputs and at its outputs
    family = family_of("ecp5")
    assert given == [
        (*fpga._place_options(family, seed), *fpga.ESTIMATE_OPTIONS, "--placer", "static") for seed in (7, 9)
    ]


def test_no_unit_is_synthesised_to_be_placed_without_nextpnr(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise PriceError("not installed")

    monkeypatch.setattr(fpga_units, "nextpnr_version", missing)
    monkeypatch.setattr(fpga_units, "made", lambda files, script: pytest.fail("takes minutes"))
    with pytest.raises(PriceError, match="not installed"):
        next(clocks_by_unit(load_machine("tiny8"), "ecp5", [7]))
