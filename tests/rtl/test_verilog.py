"""The emitted Verilog: the same on every run, and without what synthesis would stumble over."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.integration import WAIVERS, split_files
from tilewright.rtl.registers import ID
from tilewright.rtl.simulation.tools import verilator_folder
from tilewright.rtl.verilog import TOP, emit_verilog, without_next_values
from tilewright.rtl.verilog import netlist as prefixed

PREFIX = "own_"


@pytest.fixture(scope="module")
def netlist() -> str:
    return emit_verilog(load_machine("tiny8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `tilewright rtl --split --prefix own_`."""
    machine, place = load_machine("tiny8"), tmp_path_factory.mktemp("split")
    for name, text in split_files(machine, prefixed(machine, PREFIX)).items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    return place


def complaints(folder: Path, *files: str) -> list[str]:
    """All that Verilator has to say: latches, loops, several drivers, widths, blocking and non-blocking mixes."""
    command = [str(verilator_folder() / "verilator"), "--lint-only", "-Wall", "--top-module", f"{PREFIX}{TOP}", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if line.startswith("%")]


def listed(folder: Path, kind: str = "inferred") -> list[str]:
    """The files of the list, with the wrapper of a kind."""
    return [name.replace("inferred/", f"{kind}/") for name in (folder / f"{PREFIX}{TOP}.f").read_text().split()]


def test_verilator_accepts_it(folder: Path) -> None:
    assert complaints(folder, f"{PREFIX}{TOP}.vlt", *listed(folder)) == []


def test_every_waiver_is_needed(folder: Path) -> None:
    warnings = re.findall("^%Warning-([A-Z]+):", "\n".join(complaints(folder, *listed(folder))), re.MULTILINE)
    assert set(warnings) == set(WAIVERS)


def test_a_design_may_have_other_memories(folder: Path) -> None:
    """Those of FPGAs, and macros, each around a module that is left to the process."""
    assert complaints(folder, f"{PREFIX}{TOP}.vlt", *listed(folder, "fpga")) == []
    text = (folder / "macro" / f"{PREFIX}memory.sv").read_text()
    missing = set(re.findall(rf"{PREFIX}sram_\d+x\d+", text))
    assert missing and (folder / "blocks.v").write_text("".join(block(name) for name in sorted(missing)))
    waived = (f"{PREFIX}{TOP}.vlt", "-Wno-DECLFILENAME", "-Wno-UNDRIVEN")
    assert complaints(folder, *waived, *listed(folder, "macro"), "blocks.v") == []


def block(name: str) -> str:
    """An empty macro."""
    depth, width = (int(number) for number in name.rsplit("_", 1)[1].split("x"))
    pins = f"input clk, write_enable, read_enable, input [{(depth - 1).bit_length() - 1}:0] write_address, read_address"
    data = f"input [{width - 1}:0] write_data, output [{width - 1}:0] read_data"
    return f"module {name} ({pins}, {data}); endmodule\n"


def test_no_memory_of_words_is_left_outside_the_wrapper(netlist: str) -> None:
    before, _, wrapper = netlist.rpartition("module memory #(")
    assert "ram_style" not in before and "words" in wrapper


def test_all_names_are_plain(folder: Path) -> None:
    """Tools ask for a space behind a name with a backslash, in each path of a constraint."""
    for path in folder.rglob(f"{PREFIX}*.sv"):
        text = path.read_text()
        assert "\\" not in text and f"module {path.stem}" in text, path


ICARUS = """
module bench;
  reg clk = 0, rst = 1, asks = 0;
  wire [31:0] word;
  wire done, irq, running, valid, awvalid, arvalid;
  always #1 clk = ~clk;
  own_npu npu (.clk(clk), .rst(rst), .done(done), .irq(irq), .running(running), .m_axi_awvalid(awvalid),
    .m_axi_arvalid(arvalid), .s_axi_araddr(8'd0), .s_axi_arvalid(asks), .s_axi_rdata(word), .s_axi_rvalid(valid),
    .s_axi_rready(1'b1), .s_axi_awvalid(1'b0), .s_axi_wvalid(1'b0), .s_axi_bready(1'b1), .m_axi_arready(1'b0),
    .m_axi_rvalid(1'b0), .m_axi_awready(1'b0), .m_axi_wready(1'b0), .m_axi_bvalid(1'b0));
  initial begin
    repeat (4) @(negedge clk);
    rst = 0; asks = 1;
    @(negedge clk) asks = 0;
    $display("%h %b", word, {valid, done, irq, running, awvalid, arvalid});
    $finish;
  end
endmodule
"""


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
def test_icarus_runs_it(folder: Path) -> None:
    """Nothing that is computed of constants stays unknown: the first register is read, and no pin is X."""
    (folder / "bench.v").write_text(ICARUS)
    compiled = subprocess.run(
        ["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.v", *listed(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == f"{ID:08x} 100000"


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
    assert {"clk", "rst", "done", "running", "m_axi_araddr", "m_axi_wstrb", "s_axi_awvalid"} <= ports
    assert [name for name in ports if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []


def test_sets_registers_where_their_next_values_are_computed(netlist: str) -> None:
    """No block computes a variable of Amaranth's that a register takes: a simulation would do so in every cycle."""
    found = []
    for module in netlist.split("endmodule\n"):
        taken = set(re.findall(r"^ +\S+ +<= (value_\d+);$", module, re.MULTILINE))
        found += [name for name in re.findall(r"^ +(value_\d+) = ", module, re.MULTILINE) if name in taken]
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


def test_each_module_says_what_it_is_and_where_it_was_made(folder: Path, repository: Path) -> None:
    heads = {path.stem: path.read_text().partition("module ")[0] for path in folder.glob("*.sv")}
    named = {name: re.search(r"^// (\w+) \((\S+), line (\d+)\):\s", head, re.M) for name, head in heads.items()}
    assert [name for name, found in named.items() if found is None] == []
    for found in filter(None, named.values()):
        line = (repository / found[2]).read_text().splitlines()[int(found[3]) - 1]
        assert line.startswith(f"class {found[1]}("), line


@pytest.mark.slow
def test_fusesoc_lints_by_its_core_file(folder: Path, tmp_path: Path) -> None:
    """And finds a fault that was put into a module."""
    top = f"{PREFIX}{TOP}"
    code, said = fusesoc(folder, tmp_path / "right", top)
    assert code == 0, said
    wrong = tmp_path / "wrong"
    shutil.copytree(folder, wrong)
    text = (wrong / f"{top}.sv").read_text()
    (wrong / f"{top}.sv").write_text(
        text.replace("endmodule", "  logic nobody_drives_it; assign done = nobody_drives_it;\nendmodule", 1)
    )
    code, said = fusesoc(wrong, tmp_path / "found", top)
    assert code != 0 and "nobody_drives_it" in said


def fusesoc(folder: Path, work: Path, top: str) -> tuple[int, str]:
    """The end of FuseSoC's target that lints, and all that it and Verilator say."""
    environment = {**os.environ, "PATH": f"{verilator_folder()}:{os.environ['PATH']}", "HOME": str(work)}
    work.mkdir()
    run = ["run", "--work-root", str(work / "build"), "--target", "lint", f"tilewright:npu:{top}"]
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(folder), *run]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
