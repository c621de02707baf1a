"""Clock gates: one for each enable that stands before enough flip-flops, put in by Yosys when logic is mapped.

A gate is a latch and an AND: the clock reaches the flip-flops behind it only in cycles in which they are enabled.
Where there is one, the flip-flops need no multiplexer that gives them back what they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

CELL = "clock_gate"
"""What a gate is called in a netlist, whatever a process calls it."""

FEWEST = 3
"""The flip-flops with one enable from which on a gate takes less than what it replaces, in area as in energy."""

MOST = 32
"""The flip-flops that one gate drives: some third of what the shipped process allows, which leaves room for wires."""

FLIP_FLOPS = ("$_DFF_P_", "$_DFFE_PP_", "$_SDFF_PP0_", "$_SDFF_PP1_", "$_SDFFE_PP0P_", "$_SDFFE_PP1P_")
"""What Yosys calls those that there are before gates: with or without a reset and an enable, all by high levels."""

SCRIPT = f"""\
read_rtlil unit.il
synth -booth
dfflegalize {" ".join(f"-cell {kind} 01" for kind in FLIP_FLOPS)}
techmap -map resets.v
simplemap
opt_merge
opt_clean
clockgate -pos {CELL} enable:clock:gated -min_net_size {FEWEST}
dfflibmap -liberty cells.lib
opt
abc -liberty cells.lib
opt_clean
write_json out
"""
"""As for other prices, but for the gates."""

RESETS = """\
module \\$_SDFFE_PP0P_ (input D, C, R, E, output Q);
  \\$_DFFE_PP_ _TECHMAP_REPLACE_ (.D(D & ~R), .C(C), .E(E | R), .Q(Q));
endmodule
module \\$_SDFFE_PP1P_ (input D, C, R, E, output Q);
  \\$_DFFE_PP_ _TECHMAP_REPLACE_ (.D(D | R), .C(C), .E(E | R), .Q(Q));
endmodule
"""
"""The file resets.v: a reset enables a register, or it would not reach one whose clock is off."""


@dataclass(frozen=True, slots=True)
class ClockGate:
    """The clock gate of a process; energies in pJ, of a cycle in which it holds the clock back, or lets it through."""

    cell: str
    area_um2: float
    closed_pj: float
    open_pj: float


@dataclass(frozen=True, slots=True)
class Gated:
    """Of a mapped module: cells by type, flip-flops behind gates, and gates, of which none drives too many."""

    cells: Mapping[str, int]
    flip_flops: int
    gates: int


def gated(module: Mapping[str, Any], flip_flops: frozenset[str]) -> Gated:
    """The gates in a module of Yosys's JSON, whose cells of some types are flip-flops."""
    cells = Counter(cell["type"] for cell in module["cells"].values())
    gates = [cell["connections"]["gated"][0] for cell in module["cells"].values() if cell["type"] == CELL]
    behind = dict.fromkeys(gates, 0)
    for cell in module["cells"].values():
        if cell["type"] in flip_flops:
            clocks = [bits[0] for bits in cell["connections"].values() if bits and bits[0] in behind]
            for net in clocks:
                behind[net] += 1
    del cells[CELL]
    return Gated(cells, sum(behind.values()), sum(gates_for(count) for count in behind.values()))


def gates_for(flip_flops: float) -> int:
    """How many gates so many flip-flops take that are enabled together."""
    return ceil(flip_flops / MOST)
