"""Block memories of a netlist as instances of one module, of which there is a file for each kind of storage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template

WRAPPER = "memory"
"""The name of the module behind which a netlist's block memories are."""

WORDS = "words"
"""The array in the inferred one, for who looks into it in a simulation."""

KINDS = {
    "inferred": "an array of registers, which synthesis and simulators understand",
    "fpga": "the same with what Vivado, Quartus, Diamond and Yosys look for, so that it becomes block RAM",
    "macro": "SRAM macros of a process, one for each size: to be filled in",
}
"""The files of the wrapper, `memory_KIND.sv`: a design has one of them."""

TEMPLATES = Path(__file__).parent / "wrappers"


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """Of a block memory."""

    depth: int
    width: int


_MEMORY = re.compile(
    r"(?:  \(\* (?:no_rw_check|ram_style) = .* \*\)\n){2}"
    r"  reg \[(\d+):0\] (\w+) \[(\d+):0\];\n"
    r"  integer \w+;\n  initial for \(.*\)\n    \w+\[\w+\] = \d+'h0;\n"
    r"  always @\(posedge (\w+)\) begin\n(?:    if \((.*?) ?\)\n      \2\[(.*)\] <= (.*);\n)?  end\n"
    r"  reg \[\1:0\] (_\d+_);\n"
    r"  always @\(posedge \4\) begin\n(?:    if \((.*?) ?\) begin\n)?    +\8 <= \2\[(.*)\];\n(?:    end\n)?  end\n"
    r"  assign (\S+ ?) = \8;\n"
)
"""A memory with its zeros, a write port, a read port with a register, and where that goes.

Of a memory that no engine writes, the write port is empty.
"""


def with_wrappers(module: str, prefix: str) -> tuple[str, set[Size]]:
    """A module whose block memories are instances of the wrapper by their own names, and their sizes."""
    sizes = set()

    def wrap(found: re.Match[str]) -> str:
        high, name, last, clock, enable, address, data, _, read, read_address, output = found.groups()
        size = Size(int(last) + 1, int(high) + 1)
        sizes.add(size)
        return (
            f"  {prefix}{WRAPPER} #(.WIDTH({size.width}), .DEPTH({size.depth})) {name} (\n"
            f"    .clk({clock}),\n    .write_enable({f'{enable} ' if enable else _NEVER}),\n"
            f"    .write_address({address or _ZERO}),\n    .write_data({data or _ZERO}),\n"
            f"    .read_enable({f'{read} ' if read else _ALWAYS}),\n"
            f"    .read_address({read_address}),\n    .read_data({output})\n  );\n"
        )

    return _MEMORY.sub(wrap, module), sizes


_ALWAYS, _NEVER, _ZERO = "1'b1", "1'b0", "'0"


MACRO = "macro"
"""The name of a macro in the wrapper for macros."""


def macro_place(size: Size) -> str:
    """The block of that wrapper in which the macro of a size is."""
    return f"depth_{size.depth}_width_{size.width}"


def macro_name(prefix: str, size: Size) -> str:
    """The module of a macro."""
    return f"{prefix}sram_{size.depth}x{size.width}"


def wrapper_files(prefix: str, sizes: Iterable[Size]) -> dict[str, str]:
    """The wrapper of each kind, by the name of its file; that for macros has a place for each size."""
    places, known = [], []
    for size in sorted(sizes):
        known.append(f"(DEPTH == {size.depth} && WIDTH == {size.width})")
        # No `else`: below one, Yosys puts a scope of its own before the name.
        places.append(
            f"    if {known[-1]} begin : {macro_place(size)}\n"
            f"      {macro_name(prefix, size)} {MACRO} (\n        .clk(clk),\n"
            "        .write_enable(write_enable), .write_address(write_address), .write_data(write_data),\n"
            "        .read_enable(read_enable), .read_address(read_address), .read_data(read_data)\n      );\n"
            "    end\n"
        )
    words = {"prefix": prefix, "macros": "".join(places), "known": " || ".join(known) or "0"}
    return {
        f"{prefix}{WRAPPER}_{kind}.sv": Template((TEMPLATES / f"{kind}.sv").read_text()).substitute(words)
        for kind in KINDS
    }
