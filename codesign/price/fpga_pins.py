"""What stands around a machine on an FPGA: four pins, and tiles that stay empty so that wires have room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.rtl.verilog import TOP

PINS = "pins"

JOIN = f"""\
read_json in.json
read_verilog -sv pins.v
hierarchy -top {PINS}
flatten
opt_clean
write_json out"""
"""A machine's netlist and the module of its pins as one."""


def pins(ports: Mapping[str, Any], module: str = TOP, empty: Sequence[str] = ()) -> str:
    """A module, in Verilog, around one with these ports, which has four pins: no package has a pin for each port.

    Inputs come from a shift register, outputs are gathered in one, so that none is unused. It is written in the cells
    of the device, as the machine is. `empty`: places for LUTs that no cell of the machine is to have; each gets a LUT
    that does nothing, because nextpnr has no other way to say so.
    """
    connections = ["  .clk(clk)", "  .rst(rst)"]
    counts = {"input": 0, "output": 0}
    for name, port in ports.items():
        if name in ("clk", "rst"):
            continue
        first, bits = counts[port["direction"]], len(port["bits"])
        register = "shifted" if port["direction"] == "input" else "result"
        first += port["direction"] == "input"  # bit 0 of `shifted` is the pin itself
        connections.append(f"  .\\{name} ({register}[{first + bits - 1}:{first}])")
        counts[port["direction"]] += bits
    joined = ",\n".join(connections)
    return f"""\
module {PINS}(input clk, input rst, input from_pin, output to_pin);
  wire [{counts["input"]}:0] shifted;
  wire [{counts["output"]}:0] gathered;
  wire [{counts["output"] - 1}:0] result, mixed;
  assign shifted[0] = from_pin;
  assign gathered[0] = 1'b0;
  assign to_pin = gathered[{counts["output"]}];
  \\{module} machine(
{joined});
{_registers("shift", counts["input"], "shifted[i]", "shifted[i + 1]")}
{_registers("gather", counts["output"], "mixed[i]", "gathered[i + 1]", xor="mixed[i], gathered[i], result[i]")}
{empty_luts(empty)}endmodule
"""


def empty_luts(places: Sequence[str]) -> str:
    """A LUT without inputs at each place; its output is a wire of its own, which nobody reads."""
    if not places:
        return ""
    luts = (
        f'  (* keep, BEL = "{place}" *) LUT4 #(.INIT(16\'h0000)) \\empty/{place} (.Z(nothing[{number}]));\n'
        for number, place in enumerate(places)
    )
    return f"  wire [{len(places) - 1}:0] nothing;\n" + "".join(luts)


def _registers(name: str, count: int, source: str, target: str, xor: str = "") -> str:
    """A register for each bit; `xor` names the output and the two inputs of a gate before it."""
    gate = ""
    if xor:
        output, a, b = xor.split(", ")
        gate = f"    LUT4 #(.INIT(16'h6666)) gate(.A({a}), .B({b}), .C(1'b0), .D(1'b0), .Z({output}));\n"
    settings = '.GSR("DISABLED"), .CEMUX("1"), .CLKMUX("CLK"), .LSRMUX("LSR"), .REGSET("RESET"), .SRMODE("LSR_OVER_CE")'
    return f"""\
  for (genvar i = 0; i < {count}; i = i + 1) begin : {name}
{gate}    TRELLIS_FF #({settings})
      register(.CLK(clk), .LSR(1'b0), .DI({source}), .Q({target}));
  end"""
