"""The rules of AXI that are bound to the machine: a bus that keeps them passes, and each that is broken is named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.simulation.rules import RULES, rules_verilog
from tilewright.rtl.simulation.tools import verilator_folder
from tilewright.rtl.simulation.verilator import run_tool

STAYS, NO_BURST = "does not stay as it is until it is ready", "is no burst of whole beats in a page"

BREAKS = {
    "if (cycle == 11) araddr = 8;": f"AR {STAYS}",
    "if (cycle == 11) arvalid = 0;": f"AR {STAYS}",
    "if (cycle == 5) awlen = 0;": f"AW {STAYS}",
    "if (cycle == 7) wdata = 9;": f"W {STAYS}",
    "if (cycle >= 10) araddr = 64'hff8;": f"a read {NO_BURST}",
    "if (cycle >= 10) arsize = 2;": f"a read {NO_BURST}",
    "if (cycle >= 10) arburst = 2;": f"a read {NO_BURST}",
    "if (cycle < 6) awlen = 16;": f"a write {NO_BURST}",
    "if (cycle == 6 || cycle == 7) wlast = 1;": "a burst has more or fewer beats than AWLEN says",
    "if (cycle >= 6) begin wvalid = 1; wready = 1; wlast = 0; end": "WLAST does not come",
    "if (cycle == 9) bready = 0;": "BREADY is low",
    "if (cycle == 2) arvalid = 1;": "something is valid during a reset",
    "if (cycle == 13) bvalid = 0;": f"B {STAYS}",
    "if (cycle == 13) bresp = 2;": f"B {STAYS}",
    "if (cycle == 17) rdata = 9;": f"R {STAYS}",
    "if (cycle == 10) bvalid = 1;": "a response to no write",
    "if (cycle == 10) rvalid = 1;": "a response to no read",
    "if (cycle == 16) {host_arvalid, host_arready} = 2'b11;": "a second access is taken before the first is answered",
    "if (cycle == 1) bvalid = 1;": "something is valid during a reset",
}
"""What is done to a bus that keeps the rules, and which is broken then."""

BUS = """
module stimulus;
    bit clk, rst = 1;
    int cycle, chosen;
    bit arvalid, arready, awvalid, awready, wvalid, wready, wlast, bready;
    bit [63:0] araddr, awaddr, wdata;
    bit [7:0] arlen, awlen;
    bit [2:0] arsize, awsize;
    bit [1:0] arburst, awburst;
    bit host_awvalid, host_awready, host_wvalid, host_wready, bvalid, host_bready, host_arvalid, host_arready;
    bit rvalid, host_rready;
    bit [1:0] bresp, rresp;
    bit [31:0] rdata;
    tilewright_manager_rules #(.ID_BITS(1), .BYTES(8), .BEATS(16)) manager (
        .restart(1'b0), .arid('0), .arcache('0), .arprot('0), .awid('0), .awcache('0), .awprot('0), .wstrb('1), .*);
    tilewright_subordinate_rules subordinate (
        .clk(clk), .rst(rst), .awvalid(host_awvalid), .awready(host_awready), .wvalid(host_wvalid),
        .wready(host_wready), .bvalid(bvalid), .bready(host_bready), .bresp(bresp), .arvalid(host_arvalid),
        .arready(host_arready), .rvalid(rvalid), .rready(host_rready), .rresp(rresp), .rdata(rdata));
    always #1 clk = !clk;
    initial void'($value$plusargs("break=%d", chosen));
    always @(negedge clk) begin
        cycle++;
        rst = cycle < 4;
        {awvalid, awready} = {cycle == 4 || cycle == 5, cycle == 5};  // a write of two beats
        {awaddr, awlen, awsize, awburst} = {64'h0, 8'd1, 3'd3, 2'd1};
        {wvalid, wready, wlast} = {cycle >= 6 && cycle <= 8, cycle == 7 || cycle == 8, cycle == 8};
        wdata = cycle == 8 ? 2 : 1;
        {arvalid, arready} = {cycle == 10 || cycle == 11, cycle == 11};  // a read of the last two beats of a page
        {araddr, arlen, arsize, arburst} = {64'hff0, 8'd1, 3'd3, 2'd1};
        bready = 1;
        {host_awvalid, host_awready, host_wvalid, host_wready} = {4{cycle == 11}};
        {bvalid, host_bready, bresp} = {cycle >= 12 && cycle <= 14, cycle == 14, 2'd0};
        {host_arvalid, host_arready} = {2{cycle == 15}};
        {rvalid, host_rready, rresp, rdata} = {cycle >= 16 && cycle <= 18, cycle == 18, 2'd0, 32'd1};
        case (chosen)
@BREAKS@
            default: ;
        endcase
        if (cycle == 40) $finish;
    end
endmodule
"""


def test_each_bus_of_the_machine_is_bound() -> None:
    bound = re.findall(r"^bind npu (\w+) .*?(\w+) \(", rules_verilog(load_machine("base16-2dma")), re.MULTILINE)
    manager = "tilewright_manager_rules"
    rest = [(manager, "m_axi_rules"), (manager, "m_axi1_rules")]
    assert bound == [("tilewright_subordinate_rules", "s_axi_rules"), *rest]


@pytest.mark.slow
def test_each_rule_that_is_broken_ends_the_simulation(tmp_path: Path) -> None:
    from tilewright.rtl.simulation import rules

    breaks = "".join(f"            {n}: begin {each} end\n" for n, each in enumerate(BREAKS, 1))
    (tmp_path / RULES).write_text(Path(rules.__file__).with_name(RULES).read_text())
    (tmp_path / "stimulus.sv").write_text(BUS.replace("@BREAKS@", breaks))
    tool, options = str(verilator_folder() / "verilator"), ("--binary", "--noassert", "-Wno-fatal", "-Wno-lint")
    run_tool([tool, *options, "--top-module", "stimulus", "-Mdir", "obj", RULES, "stimulus.sv"], tmp_path)
    program = [str(tmp_path / "obj" / "Vstimulus")]
    kept = subprocess.run(program, capture_output=True, text=True)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    for number, (change, rule) in enumerate(BREAKS.items(), 1):
        ended = subprocess.run([*program, f"+break={number}"], capture_output=True, text=True)
        assert ended.returncode != 0 and re.search(rf"^AXI.*: {re.escape(rule)}$", ended.stdout, re.MULTILINE), (
            f"{change}: {ended.stdout}{ended.stderr}"
        )
