"""Registers inside an ECP5's cells do what the flip-flops beside them did."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tilewright.codesign.price import fpga_registers
from tilewright.codesign.price.fpga_family import family_of
from tilewright.codesign.price.fpga_registers import with_cell_registers
from tilewright.rtl.yosys import YosysError, run_script

SYNTHESISE = family_of("ecp5").synthesise

PRODUCT = """\
module npu(input clk, take, put, input signed [3:0] a, b, output reg signed [7:0] y, output reg signed [3:0] w);
  reg signed [3:0] x;
  always @(posedge clk) begin
    x <= a;
    if (take) w <= b;
    if (put) y <= x * w;
  end
endmodule
"""
"""A factor that only the product has, one with an enable that others see, and a product with an enable of its own."""

WORD = """\
module npu(input clk, write, read, put, input [1:0] at, of, input [8:0] d, output reg [8:0] y);
  (* ram_style = "block", no_rw_check = 1 *) reg [8:0] words [3:0];
  reg [8:0] word;
  always @(posedge clk) begin
    if (write) words[at] <= d;
    if (read) word <= words[of];
    if (put) y <= word;
  end
endmodule
"""
"""A word that is read is kept until the next one is, and passes with an enable of its own."""


def _bus(name: str, bits: int) -> str:
    return "{" + ", ".join(f"{name}{bit}" for bit in reversed(range(bits))) + "}"


def _pins(name: str, bits: int) -> str:
    return ", ".join(f"{name}{bit}" for bit in range(bits))


def _port(letter: str) -> str:
    """A port of the model: it reads or writes in a cycle, of four words whose place its width says."""
    output, data, address = _bus(f"DO{letter}", 18), _bus(f"DI{letter}", 18), _bus(f"AD{letter}", 14)
    return f"""
  reg [17:0] word{letter} = 0, kept{letter} = 0;
  wire [13:0] address{letter} = {address};
  wire [1:0] place{letter} = DATA_WIDTH_{letter} == 18 ? address{letter}[5:4] : address{letter}[4:3];
  always @(posedge CLK{letter}) begin
    if (CE{letter} && WE{letter}) words[place{letter}] <= {data};
    if (CE{letter} && !WE{letter}) word{letter} <= words[place{letter}];
    if (OCE{letter}) kept{letter} <= word{letter};
  end
  assign {output} = REGMODE_{letter} == "OUTREG" ? kept{letter} : word{letter};"""


def _ram_pins(letter: str) -> str:
    inputs = ", ".join([_pins(f"DI{letter}", 18), _pins(f"AD{letter}", 14), _pins(f"CS{letter}", 3)])
    own = ", ".join(f"{name}{letter}" for name in ("CE", "OCE", "CLK", "WE", "RST"))
    return f"input {inputs}, {own}, output {_pins(f'DO{letter}', 18)}"


ROWS = [f"INITVAL_{row:02X}" for row in range(64)]
UNUSED = ("GSR", "CSDECODE_A", "CSDECODE_B", "CLKAMUX", "CLKBMUX", "WRITEMODE_A", "WRITEMODE_B", "RESETMODE")
"""Settings that the model of a block RAM does not look at."""

SETTINGS = ", ".join(f"{name} = 0" for name in (*UNUSED, "ASYNC_RESET_RELEASE", *ROWS))

MODELS = f"""\
module TRELLIS_FF #(parameter GSR = "", CEMUX = "1", CLKMUX = "", LSRMUX = "", REGSET = "RESET", SRMODE = "")
  (input CLK, CE, LSR, DI, M, output reg Q = 0);
  always @(posedge CLK) if (CEMUX != "CE" || CE) Q <= DI;
endmodule
module LUT4 #(parameter [15:0] INIT = 0) (input A, B, C, D, output Z);
  assign Z = INIT[{{D, C, B, A}}];
endmodule
module MULT18X18D #(parameter
  REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "", REG_INPUTA_RST = "",
  REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "", REG_INPUTB_RST = "",
  REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "", REG_OUTPUT_RST = "")
  (input {_pins("A", 18)}, {_pins("B", 18)}, {_pins("C", 18)},
   input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, CE1, CE2, RST0, output {_pins("P", 36)});
  reg [17:0] a = 0, b = 0;
  reg [35:0] p = 0;
  wire [17:0] x = REG_INPUTA_CLK == "CLK0" ? a : {_bus("A", 18)};
  wire [17:0] w = REG_INPUTB_CLK == "CLK0" ? b : {_bus("B", 18)};
  wire [35:0] product = {{{{18{{SIGNEDA & x[17]}}}}, x}} * {{{{18{{SIGNEDB & w[17]}}}}, w}};
  wire [2:0] enables = {{CE2, CE1, CE0}};
  always @(posedge CLK0) begin
    if (enables[REG_INPUTA_CE == "CE2" ? 2 : REG_INPUTA_CE == "CE1" ? 1 : 0]) a <= {_bus("A", 18)};
    if (enables[REG_INPUTB_CE == "CE2" ? 2 : REG_INPUTB_CE == "CE1" ? 1 : 0]) b <= {_bus("B", 18)};
    if (enables[REG_OUTPUT_CE == "CE2" ? 2 : REG_OUTPUT_CE == "CE1" ? 1 : 0]) p <= product;
  end
  assign {_bus("P", 36)} = REG_OUTPUT_CLK == "CLK0" ? p : product;
endmodule
module DP16KD #(parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG",
  {SETTINGS})
  ({_ram_pins("A")}, {_ram_pins("B")});
  reg [17:0] words [3:0];
  integer row;
  initial for (row = 0; row < 4; row = row + 1) words[row] = 0;
  {_port("A")}
  {_port("B")}
endmodule
"""
"""The cells as Lattice's FPGA-TN-02205 and FPGA-TN-02204 say of what is used here; a block RAM of four words."""

PROVE = """\
read_verilog -sv models.v
read_json before.json
read_json after.json
hierarchy -check
proc
flatten
opt -full
memory
opt -full
setundef -zero
miter -equiv -flatten -make_outputs before after miter
hierarchy -top miter
flatten
opt -full
async2sync
sat -verify -seq 6 -set-init-zero -prove trigger 0 miter
tee -q -o out stat"""
"""Equal outputs for all inputs in the first six cycles: no register is more than three cycles from an output."""


def synthesised(verilog: str) -> str:
    return run_script({"in.v": verilog}, f"read_verilog -sv in.v\n{SYNTHESISE} -top npu\nwrite_json out")


def top_of(netlist: str) -> dict[str, Any]:
    return json.loads(netlist)["modules"]["npu"]


def cells_of(netlist: str) -> Counter[str]:
    return Counter(cell["type"] for cell in top_of(netlist)["cells"].values())


def prove_equal(before: str, after: str) -> None:
    tops = {"before": top_of(before) | {"attributes": {}}, "after": top_of(after) | {"attributes": {}}}
    # Neither is a top any more.
    files = {f"{name}.json": json.dumps({"modules": {name: top}}) for name, top in tops.items()}
    run_script({**files, "models.v": MODELS}, PROVE)


@pytest.mark.slow
def test_a_multiplier_has_its_registers_inside() -> None:
    before = synthesised(PRODUCT)
    after = with_cell_registers(before, "npu")
    assert cells_of(before)["TRELLIS_FF"] == 4 + 4 + 8
    assert cells_of(after) == {"MULT18X18D": 1, "TRELLIS_FF": 4}  # the factor that others see
    prove_equal(before, after)


@pytest.mark.slow
def test_a_block_ram_has_its_register_inside() -> None:
    before = synthesised(WORD)
    after = with_cell_registers(before, "npu")
    assert (cells_of(before)["TRELLIS_FF"], cells_of(after)) == (9, {"DP16KD": 1})
    prove_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("verilog", [PRODUCT, WORD])
def test_an_enable_that_is_lost_is_noticed(verilog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clocking = fpga_registers._Packing.clocking

    def always(packing: Any, register: str) -> Any:
        found = clocking(packing, register)
        return found and fpga_registers._Clocking(found.clock, "1")

    before = synthesised(verilog)
    monkeypatch.setattr(fpga_registers._Packing, "clocking", always)
    with pytest.raises(YosysError, match="proof did fail"):
        prove_equal(before, with_cell_registers(before, "npu"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "verilog",
    [
        PRODUCT.replace("if (put) y <= x * w", "y <= put ? 0 : x * w").replace("x <= a", "x <= take ? 0 : a"),
        PRODUCT.replace("x <= a", "x <= a; y <= 0").replace("x * w", "x * w + 1").replace("x * w", "a * w"),
    ],
    ids=["with a reset", "of something else"],
)
def test_other_flip_flops_stay(verilog: str) -> None:
    before = synthesised(verilog)
    assert cells_of(with_cell_registers(before, "npu")) == cells_of(before)
