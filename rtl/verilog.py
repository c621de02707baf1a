"""The machine as Verilog: one text, the same for the same machine on every run."""

from __future__ import annotations

import re

from amaranth.back import verilog

from tilewright.isa.machine.machine import Machine
from tilewright.isa.rare_collection import rare_collection
from tilewright.rtl.npu import Npu

TOP = "npu"
"""The name of the top module."""


def emit_verilog(machine: Machine) -> str:
    """The whole machine, top module `npu`; its registers for the host are those of `rtl.registers.register_map`."""
    with rare_collection():
        text = verilog.convert(Npu(machine), name=TOP, emit_src=False)
    modules = re.split(r"(?<=^endmodule\n)", _fold_zero_rows(text), flags=re.MULTILINE)
    return "".join(without_next_values(module) for module in modules)


def _fold_zero_rows(text: str) -> str:
    """Write the zeros that a memory starts with as a loop in place of a line for each row."""
    block = re.compile(r"^  initial begin\n((?:    (\w+)\[\d+\] = \d+'h0+;\n)+)  end\n", re.MULTILINE)

    def fold(match: re.Match[str]) -> str:
        rows, name = match[1].count("\n"), match[2]
        width = re.search(r"= (\d+)'h", match[1])
        assert width is not None
        return (
            f"  integer {name}_row;\n"
            f"  initial for ({name}_row = 0; {name}_row < {rows}; {name}_row = {name}_row + 1)\n"
            f"    {name}[{name}_row] = {width[1]}'h0;\n"
        )

    return block.sub(fold, text)


_CLOCKED = re.compile(r"^  always @\(posedge clk\)\n    (.+?) <= (\S+ );\n", re.MULTILINE)
"""A register that takes the value of a variable: both."""

_COMPUTED = re.compile(
    r"^  always @\* begin\n    if \(\S+ \) begin end\n(    (\S+ ) = (?:.*\n)+?)  end\n", re.MULTILINE
)
"""A block that computes variables: its statements but the first, which does nothing, and the variable set first."""

_DECLARED = re.compile(r"^  reg (?:\[\d+:0\] )?(\S+ );\n", re.MULTILINE)


def without_next_values(module: str) -> str:
    """A module whose registers are set where their next values are computed, without a variable between.

    A simulation computes such a variable in every cycle, also where its register stays as it is: that of `base16`,
    which has nine hundred of them, takes a fifth longer with them. `\\$1  = x; if (load) begin \\$1  = y; end` becomes
    `if (load) begin x <= y; end`.
    """
    bodies = {block[2]: block[1] for block in _COMPUTED.finditer(module) if _has_one_reader(module, block[1], block[2])}
    removed = set()

    def set_directly(clocked: re.Match[str]) -> str:
        register, variable = clocked.groups()
        if variable not in bodies:
            return clocked[0]
        removed.add(variable)
        changes = bodies[variable].removeprefix(f"    {variable} = {register};\n")
        assigned = re.compile(rf"^( +){re.escape(variable)}(.*?) = ", re.MULTILINE)
        return "  always @(posedge clk) begin\n" + assigned.sub(rf"\1{_plain(register)}\2 <= ", changes) + "  end\n"

    text = _CLOCKED.sub(set_directly, module)
    text = _COMPUTED.sub(lambda block: "" if block[2] in removed else block[0], text)
    return _DECLARED.sub(lambda declared: "" if declared[1] in removed else declared[0], text)


def _has_one_reader(module: str, body: str, variable: str) -> bool:
    """Whether a block computes only this variable, does not read it, and the module names it in one other statement."""
    assigned = re.findall(r"^ +(\S+).* = .*;$", body, re.MULTILINE)
    is_alone = all(f"{name} " == variable for name in assigned) and body.count(variable) == len(assigned)
    return is_alone and module.count(variable) == len(assigned) + 2  # declared and read


def _plain(text: str) -> str:
    """A text as it stands in the replacement of a regular expression."""
    return text.replace("\\", r"\\")
