"""The machine as Verilog: one text, the same for the same machine on every run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.back import verilog

from tilewright.isa.machine.machine import Machine
from tilewright.isa.rare_collection import rare_collection
from tilewright.rtl.memory_wrappers import WRAPPER, Size, with_wrappers, wrapper_files
from tilewright.rtl.npu import Npu
from tilewright.rtl.plain_verilog import plain

TOP = "npu"
"""The name of the top module."""


@dataclass(frozen=True, slots=True)
class VerilogDesign:
    """A machine as SystemVerilog: each module by its name, the top one first, and the wrapper of its block memories.

    `sizes` are those of the block memories. `wrappers` has a file for each kind of storage; a design takes one.
    """

    modules: Mapping[str, str]
    sizes: frozenset[Size]
    wrappers: Mapping[str, str]

    @property
    def top(self) -> str:
        return next(iter(self.modules))

    @property
    def wrapper(self) -> str:
        """The module that block memories are instances of."""
        return f"{self.top.removesuffix(TOP)}{WRAPPER}"

    def text(self, storage: str = "inferred") -> str:
        """All of it as one text; its block memories are of a kind of `memory_wrappers.KINDS`."""
        return "".join([*self.modules.values(), self.wrappers[f"{self.wrapper}_{storage}.sv"]])


def netlist(machine: Machine, prefix: str = "") -> VerilogDesign:
    """The whole machine; all names of modules begin with the prefix, the top one is called PREFIXnpu.

    Its registers for the host are those of `rtl.registers.register_map`.
    """
    with rare_collection():
        text = verilog.convert(Npu(machine), name=f"{prefix}{TOP}", emit_src=False)
    text = _fold_zero_rows(_BUS_PIN.sub(r"\1_", text))
    modules, sizes = [], set()
    for module in re.split(r"(?<=^endmodule\n)", text, flags=re.MULTILINE):
        wrapped, found = with_wrappers(without_next_values(module), prefix)
        modules.append(wrapped)
        sizes |= found
    named = {name[1]: of for of in plain(modules) if (name := re.search(r"^module (\w+)", of, re.MULTILINE))}
    return VerilogDesign(named, frozenset(sizes), wrapper_files(prefix, sizes))


def emit_verilog(machine: Machine, storage: str = "inferred") -> str:
    """The whole machine as one text, top module `npu`, as `VerilogDesign.text` gives it."""
    return netlist(machine).text(storage)


_BUS_PIN = re.compile(r"\b([ms]_axi\d*)__")
"""An AXI port and what Amaranth joins its signals' names with; packagers of cores look for one underscore."""


def _fold_zero_rows(text: str) -> str:
    """Write the zeros that a memory starts with as a loop in place of a line for each row."""
    block = re.compile(r"^  initial begin\n((?:    (\w+)\[\d+\] = \d+'[hd]0+;\n)+)  end\n", re.MULTILINE)

    def fold(match: re.Match[str]) -> str:
        rows, name = match[1].count("\n"), match[2]
        width = re.search(r"= (\d+)'", match[1])
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
