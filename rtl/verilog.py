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
    return _fold_zero_rows(text)


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
