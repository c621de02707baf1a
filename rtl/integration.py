"""The hardware as files for whoever puts it into a design: a head about its pins, waivers, a list of files."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from importlib.metadata import version
from textwrap import wrap

from tilewright.isa.machine.machine import Machine
from tilewright.rtl.memory_wrappers import KINDS
from tilewright.rtl.origins import origins
from tilewright.rtl.registers import register_map_markdown
from tilewright.rtl.verilog import TOP, VerilogDesign

PINS = {
    "clk": "the only clock; everything happens at its rising edge",
    "rst": "synchronous, active high; one cycle is enough. Registers only: memories keep their words. Reset the "
    "bus with it, unless nothing is open there: control.stop, then wait for status.done",
    "s_axi_*": "AXI4-Lite, subordinate: the registers below. One access at a time, all answered with OKAY",
    "m_axi*": "AXI4, manager: DRAM. Bursts are INCR, of whole beats of the bus, and stay in a page of 4 KiB. Beats "
    "of a read with one ID come in order; those of others may come between",
    "irq": "level: a run has ended, until the host acknowledges it; enabled by a register",
    "done": "no run is going on, and one has ended: the bit of the status register",
    "running": "a run is going on; it ends before done when something is still open on the bus",
    "started": "a trace, a bit for each engine: it takes an instruction in this cycle. May be left open",
    "retired": "the same, when it completes one",
}
"""What each pin of the top module is; `*` stands for the rest of a name."""

WIDTH = 110

WAIVERS = {
    "UNUSEDSIGNAL": "names that stay for whoever looks at waves: fields of words, what a unit offers and nobody takes",
    "WIDTHEXPAND": "signed operands of different widths: the narrower one is extended by its sign, as is meant",
    "WIDTHTRUNC": "a table of constants, shifted to the bit that counts",
}
"""Verilator's warnings that stay, and why."""


def head(machine: Machine, netlist: VerilogDesign) -> str:
    """Comments for the head of the top module's file: registers, then pins."""
    lines = [*register_map_markdown(machine).splitlines(), "", f"Pins of {netlist.top}:", "", *_pins(netlist), ""]
    lines += [f"Block memories are instances of {netlist.wrapper}; a design may have that of another kind."]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines) + "\n"


def _pins(netlist: VerilogDesign) -> list[str]:
    """What each pin is, those of a bus behind what the bus is."""
    top, lines = netlist.modules[netlist.top], []
    declared = re.findall(r"^  (input|output) (\[\d+:0\] )?(\w+);$", top, re.MULTILINE)
    for pattern, about in PINS.items():
        lines += wrap(f"{pattern}: {about}", WIDTH, subsequent_indent="    ")
        if pattern.endswith("*"):
            lines += [f"    {way:6} {bits:7} {name}" for way, bits, name in declared if fnmatch(name, pattern)]
    return lines


def waivers() -> str:
    """A control file for Verilator, with which `--lint-only -Wall` has nothing to say."""
    lines = ["`verilator_config"]
    for rule, reason in WAIVERS.items():
        lines += [f"// {reason}", f'lint_off -rule {rule} -file "*"']
    return "\n".join(lines) + "\n"


def one_file(machine: Machine, netlist: VerilogDesign) -> str:
    """All of it, with memories as arrays. To lint it, waive DECLFILENAME besides: a file has one name."""
    return "".join([head(machine, netlist), *_commented(machine, netlist).values(), _inferred(netlist)])


def split_files(machine: Machine, netlist: VerilogDesign) -> dict[str, str]:
    """A file for each module by its path, the wrapper of each kind in a folder of its own, waivers, and a list.

    The list names what a simulation takes: the top module first, and the wrapper with arrays.
    """
    wrapper = netlist.wrapper
    files = {f"{name}.sv": text for name, text in _commented(machine, netlist).items()}
    files[f"{netlist.top}.sv"] = head(machine, netlist) + files[f"{netlist.top}.sv"]
    files |= {f"{kind}/{wrapper}.sv": netlist.wrappers[f"{wrapper}_{kind}.sv"] for kind in KINDS}
    listed = [*(f"{name}.sv" for name in netlist.modules), f"inferred/{wrapper}.sv"]
    files |= {f"{netlist.top}.vlt": waivers(), f"{netlist.top}.f": "".join(f"{name}\n" for name in listed)}
    return {**files, f"{netlist.top}.core": core_file(machine, netlist)}


def core_file(machine: Machine, netlist: VerilogDesign) -> str:
    """A description for FuseSoC (CAPI2): the files, the wrapper of each kind as a choice, and a target that lints.

    https://fusesoc.readthedocs.io/en/stable/ref/capi2.html
    """
    wrapper, first = netlist.wrapper, next(iter(KINDS))
    modules = "".join(f"      - {name}.sv\n" for name in netlist.modules)
    wrappers = "".join(
        f"  {kind}:\n    files: [{kind}/{wrapper}.sv]\n    file_type: systemVerilogSource\n" for kind in KINDS
    )
    targets = "".join(
        f"  {name}:\n    filesets: [rtl, {kind}]\n    toplevel: {netlist.top}\n"
        for name, kind in {"default": first, **{kind: kind for kind in KINDS}}.items()
    )
    return f"""\
CAPI=2:
name: tilewright:npu:{netlist.top}:{version("tilewright")}
description: The Tilewright machine {machine.name}, hash {machine.hash}
filesets:
  rtl:
    files:
{modules}    file_type: systemVerilogSource
{wrappers}  waivers:
    files: [{netlist.top}.vlt]
    file_type: vlt
targets:
{targets}  lint:
    filesets: [waivers, rtl, {first}]
    toplevel: {netlist.top}
    default_tool: verilator
    tools: {{verilator: {{mode: lint-only, verilator_options: [-Wall]}}}}
"""


def _commented(machine: Machine, netlist: VerilogDesign) -> dict[str, str]:
    """Each module's text, after a comment that says what it is, and of which class and file it was made."""
    abouts = origins(machine, netlist.top.removesuffix(TOP))
    found = {}
    for name, text in netlist.modules.items():
        # A module that is called as a signal beside it has a number behind its name.
        about = abouts.get(name) or abouts.get(re.sub(r"_\d+$", "", name))
        lines = wrap(about, WIDTH) if about else []
        found[name] = "".join(f"// {line}\n" for line in lines) + text.lstrip("\n")
    return found


def _inferred(netlist: VerilogDesign) -> str:
    return netlist.wrappers[f"{netlist.wrapper}_inferred.sv"]
