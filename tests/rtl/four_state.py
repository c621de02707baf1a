"""A machine in Icarus Verilog, which knows unknown bits: every register and memory begins as X, and a program runs.

The bench has a memory at the AXI port that answers in order, some cycles late, whatever happens to the machine. So a
reset of the machine alone leaves beats under way that it did not ask for; the bench lets them come, forgets writes
whose data never came, and starts the program again.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.rtl.registers import bits_of, register_map
from tilewright.rtl.verilog import emit_verilog

READ_LATENCY = 20

BENCH = Template("""
module bench;
  reg clk = 0, rst = 1;
  always #1 clk = ~clk;
  reg [7:0] dram [0:$last];
  initial $$readmemh("before.hex", dram);

  wire arvalid, rready, awvalid, wvalid, wlast, done, host_awready, host_wready, host_bvalid, host_rvalid;
  wire [31:0] host_rdata;
  wire [63:0] araddr, awaddr;
  wire [7:0] arlen;
  wire [$id_high:0] arid;
  wire [$data_high:0] wdata;
  wire [$strobe_high:0] wstrb;
  reg rvalid = 0, rlast = 0, bvalid = 0, host_valid = 0, host_reads = 0;
  reg [$id_high:0] rid = 0;
  reg [$data_high:0] rdata = 0;
  reg [$host_high:0] host_address = 0;
  reg [31:0] host_data = 0;

  npu npu (.clk(clk), .rst(rst), .done(done),
    .m_axi_arvalid(arvalid), .m_axi_arready(1'b1), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arid(arid),
    .m_axi_rvalid(rvalid), .m_axi_rready(rready), .m_axi_rdata(rdata), .m_axi_rlast(rlast), .m_axi_rid(rid),
    .m_axi_rresp(2'b0), .m_axi_awvalid(awvalid), .m_axi_awready(1'b1), .m_axi_awaddr(awaddr),
    .m_axi_wvalid(wvalid), .m_axi_wready(1'b1), .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast),
    .m_axi_bvalid(bvalid), .m_axi_bresp(2'b0), .m_axi_bid({$id_bits{1'b0}}),
    .s_axi_awvalid(host_valid), .s_axi_awaddr(host_address), .s_axi_awprot(3'b0), .s_axi_awready(host_awready),
    .s_axi_wvalid(host_valid), .s_axi_wdata(host_data), .s_axi_wstrb(4'hf), .s_axi_wready(host_wready),
    .s_axi_bready(1'b1), .s_axi_bvalid(host_bvalid),
    .s_axi_arvalid(host_reads), .s_axi_araddr(host_address), .s_axi_arprot(3'b0), .s_axi_rready(1'b1),
    .s_axi_rvalid(host_rvalid), .s_axi_rdata(host_rdata));

  reg [63:0] read_address [0:63], write_address [0:63], place;
  reg [7:0] read_last [0:63];
  reg [$id_high:0] read_id [0:63];
  integer read_time [0:63];
  integer now = 0, asked = 0, answered = 0, beat = 0, addressed = 0, written = 0, write_beat = 0, owed = 0;
  integer k, unknown = 0;

  always @(posedge clk) begin
    now = now + 1;
    if (!rst && ^{arvalid, awvalid, wvalid, rready, done} === 1'bx) unknown = unknown + 1;
    if (!rvalid || rready === 1'b1) begin
      rvalid <= 0;
      if (answered != asked && now >= read_time[answered % 64] + $latency) begin
        place = (read_address[answered % 64] & ~64'd$offset) + beat * $bytes;
        for (k = 0; k < $bytes; k = k + 1) rdata[8 * k +: 8] <= dram[place + k];
        rvalid <= 1;
        rid <= read_id[answered % 64];
        rlast <= beat == read_last[answered % 64];
        beat = beat + 1;
        if (beat > read_last[answered % 64]) begin beat = 0; answered = answered + 1; end
      end
    end
    if (!rst && arvalid === 1'b1) begin
      read_address[asked % 64] = araddr; read_last[asked % 64] = arlen; read_id[asked % 64] = arid;
      read_time[asked % 64] = now; asked = asked + 1;
    end
    if (!rst && awvalid === 1'b1) begin write_address[addressed % 64] = awaddr; addressed = addressed + 1; end
    if (!rst && wvalid === 1'b1) begin
      place = (write_address[written % 64] & ~64'd$offset) + write_beat * $bytes;
      for (k = 0; k < $bytes; k = k + 1) if (wstrb[k] !== 1'b0) dram[place + k] = wdata[8 * k +: 8];
      write_beat = write_beat + 1;
      if (wlast === 1'b1) begin write_beat = 0; written = written + 1; owed = owed + 1; end
    end
    bvalid <= owed > 0;
    if (owed > 0) owed = owed - 1;
  end

  task put(input [$host_high:0] address, input [31:0] value);
    begin
      @(negedge clk) host_address = address; host_data = value; host_valid = 1;
      while (!(host_awready === 1'b1 && host_wready === 1'b1)) @(negedge clk);
      @(negedge clk) host_valid = 0;
      while (host_bvalid === 1'b1) @(negedge clk);
    end
  endtask

  task get(input [$host_high:0] address);
    begin
      @(negedge clk) host_address = address; host_reads = 1;
      @(negedge clk) host_reads = 0;
      while (host_rvalid !== 1'b1) @(negedge clk);
    end
  endtask

  task start;
    begin
$puts
    end
  endtask

  initial begin
    repeat (4) @(negedge clk);
    rst = 0;
    start;
    if ($resets) begin
      wait (answered > 1 && asked > answered + 1);
      @(negedge clk) rst = 1;
      $$display("reset with %0d bursts open", asked - answered);
      @(negedge clk) rst = 0;
      wait (answered == asked && rvalid === 1'b0);
      @(negedge clk) written = addressed;
      write_beat = 0;
      start;
    end
    if ($stops) begin
      wait (answered > 1 && asked > answered + 1);
      put($control, 32'd$stop);
      while (done !== 1'b1) @(negedge clk);
      get($fault);
      $$display("stopped with fault %0d, %0d bursts open", host_rdata[7:0], asked - answered);
      start;
    end
    while (done !== 1'b1) @(negedge clk);
    $$display("done %b, %0d cycles with unknown pins", done, unknown);
    $$writememh("after.hex", dram);
    $$finish;
  end

  initial begin
    wait (now == $most);
    $$display("not done after %0d cycles", now);
    $$finish;
  end
endmodule
""")

_INITIAL = re.compile(r"^ +initial (?:for \(.*\)\n +\S.*|.*);\n", re.MULTILINE)
"""What gives a register its value, or a memory its zeros, before the first clock edge."""


def without_initial_values(text: str) -> str:
    return _INITIAL.sub("", text)


def _with_started_blocks(text: str) -> str:
    """Blocks that compute start once all of them wait for a change of what they read.

    Version 11 takes a bit that `always_comb` selects for all of its variable, so that unknown ones call each other for
    ever.
    """
    modules = text.replace("always_comb begin", "always @* begin\n    if (is_started) begin end")
    start = "  reg is_started;\n  initial begin is_started = 0; #0 is_started = 1; end\n"
    return re.sub(r"^(module (?:(?!;$).)*?;\n)", rf"\1{start}", modules, flags=re.MULTILINE | re.DOTALL)


def run_from_unknown(
    folder: Path,
    machine: Machine,
    program: Program,
    dram: NDArray[np.uint8],
    bases: Mapping[str, int],
    ends: str = "",
    most_cycles: int = 100_000,
) -> tuple[list[str], NDArray[np.uint8] | None]:
    """What the bench prints, and the DRAM [byte] after the run; None where a byte of it is unknown.

    The run `ends` once while bursts are open, by a reset of the machine alone or by a stop of the host ("reset",
    "stop"), and starts again.
    """
    bus = machine.dram.bus_bytes
    text = without_initial_values(emit_verilog(machine))
    assert "initial" not in text
    text = _with_started_blocks(text)
    id_bits = _bits(text, "m_axi_arid")
    values = {f"{region}.base": base for region, base in bases.items()}
    values |= {f"{region}.limit": limit for region, limit in program.limits.items()}
    puts, host = [], _bits(text, "s_axi_awaddr")
    for register in register_map(machine):
        for word in range(register.words if register.name in values else 0):
            value = values[register.name] >> 32 * word & 0xFFFFFFFF
            puts.append(f"      put({host}'d{register.offset + 4 * word}, 32'd{value});")
    control, fault = (next(of for of in register_map(machine) if of.name == name) for name in ("control", "fault_code"))
    puts.append(f"      put({host}'d{control.offset}, 32'd1);")
    bench = BENCH.substitute(
        last=dram.size - 1,
        bytes=bus,
        offset=bus - 1,
        data_high=8 * bus - 1,
        strobe_high=bus - 1,
        id_bits=id_bits,
        id_high=id_bits - 1,
        host_bits=host,
        host_high=host - 1,
        latency=READ_LATENCY,
        puts="\n".join(puts),
        resets=int(ends == "reset"),
        stops=int(ends == "stop"),
        control=f"{host}'d{control.offset}",
        stop=1 << bits_of("control")["stop"],
        fault=f"{host}'d{fault.offset}",
        most=most_cycles,
    )
    (folder / "npu.sv").write_text(text)
    (folder / "bench.sv").write_text(bench)
    (folder / "before.hex").write_text("".join(f"{byte:02x}\n" for byte in dram))
    (folder / "after.hex").write_text("xx\n")
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.sv", "npu.sv"]
    compiled = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr[:2000]
    done = subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    words = re.sub(r"//.*", "", (folder / "after.hex").read_text()).split()
    is_known = all(re.fullmatch(r"[0-9a-f]{2}", word) for word in words)
    return done.stdout.splitlines(), np.array([int(word, 16) for word in words], np.uint8) if is_known else None


def _bits(text: str, port: str) -> int:
    """The width of a port of the machine."""
    found = re.search(rf"^  (?:input|output) (?:\[(\d+):0\] )?{port};$", text, re.MULTILINE)
    assert found is not None, port
    return int(found[1] or 0) + 1
