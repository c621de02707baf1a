"""The emitted Verilog: the same on every run, and without what synthesis would stumble over."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.simulation.tools import verilator_folder
from tilewright.rtl.verilog import TOP, emit_verilog, without_next_values

WAIVED = (
    *("WIDTH", "WIDTHEXPAND", "WIDTHTRUNC", "CASEINCOMPLETE"),  # Amaranth extends and truncates without saying so
    *("UNUSED", "UNUSEDSIGNAL", "UNDRIVEN", "PINCONNECTEMPTY"),  # names that Amaranth keeps, for whoever looks at waves
    *("DECLFILENAME", "PROCASSINIT", "TIMESCALEMOD", "EOFNEWLINE"),  # how one file with initial values is written
)


@pytest.fixture(scope="module")
def netlist() -> str:
    return emit_verilog(load_machine("tiny8"))


def test_verilator_accepts_it(netlist: str, tmp_path: Path) -> None:
    """Latches, loops, several drivers, blocking and non-blocking mixes: all of Verilator's warnings but the waived."""
    (tmp_path / "npu.v").write_text(netlist)
    waivers = [f"-Wno-{name}" for name in WAIVED]
    command = [str(verilator_folder() / "verilator"), "--lint-only", "-Wall", *waivers, "--top-module", TOP, "npu.v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("%")]
    assert (complaints, done.returncode) == ([], 0)


@pytest.mark.slow
def test_is_the_same_on_every_run(netlist: str, repository: Path) -> None:
    script = (
        "from tilewright.isa.files.loader import load_machine; from tilewright.rtl.verilog import emit_verilog; "
        "print(emit_verilog(load_machine('tiny8')), end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(repository)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == netlist


def test_has_plain_port_names(netlist: str) -> None:
    header = re.search(rf"^module {TOP}\(([^)]*)\);", netlist, re.MULTILINE)
    assert header is not None
    ports = {name.strip() for name in header[1].split(",")}
    assert {"clk", "rst", "done", "running", "m_axi__araddr", "m_axi__wstrb", "s_axi__awvalid"} <= ports
    assert [name for name in ports if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []


def test_writes_a_memory_of_zeros_as_a_loop(netlist: str) -> None:
    """A line for each row of each bank would make most of the text."""
    assert re.search(r"initial for \(way0_row = 0; way0_row < 2048;", netlist)
    assert not re.search(r"way0\[\d+\] = ", netlist)


def test_sets_registers_where_their_next_values_are_computed(netlist: str) -> None:
    """No block computes a variable of Amaranth's that a register takes: a simulation would do so in every cycle."""
    found = []
    for module in netlist.split("endmodule\n"):
        taken = set(re.findall(r"^ +\S+ +<= (\\\$\d+ );$", module, re.MULTILINE))
        found += [name for name in re.findall(r"^ +(\\\$\d+ ) = ", module, re.MULTILINE) if name in taken]
    assert found == []


def test_sets_registers_to_the_same_values() -> None:
    """What is read elsewhere stays, and what a block reads of itself; a part of a register may be set."""
    kept = "  always @* begin\n    if (\\$a ) begin end\n    \\$2  = y;\n    \\$2 [0] = \\$2 [1];\n  end\n"
    body = "    \\$1  = \\x$1 ;\n    if (load) begin\n      \\$1 [3:2] = y;\n    end\n"
    before = (
        f"module m;\n  reg [3:0] \\$1 ;\n  reg [3:0] \\$2 ;\n  always @(posedge clk)\n    \\x$1  <= \\$1 ;\n"
        f"  always @(posedge clk)\n    y <= \\$2 ;\n  always @* begin\n    if (\\$a ) begin end\n{body}  end\n{kept}"
    )
    after = (
        "module m;\n  reg [3:0] \\$2 ;\n  always @(posedge clk) begin\n    if (load) begin\n      \\x$1 [3:2] <= y;\n"
        f"    end\n  end\n  always @(posedge clk)\n    y <= \\$2 ;\n{kept}"
    )
    assert without_next_values(before) == after
