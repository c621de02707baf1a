"""Memory blocks: storage that is no flip-flops, on a chip or on an FPGA."""

from __future__ import annotations

from amaranth.lib.memory import Memory

from tilewright.isa.machine.memory import MOST_MEMORY_PORTS


class Block(Memory):
    """Storage with one read and one write port: an SRAM macro on a chip, block RAM on an FPGA.

    `ports_of_macro`: 1 where both always have the same address, and never are enabled in one cycle.
    """

    ports_of_macro = MOST_MEMORY_PORTS


class WordBlock(Block):
    """Storage of an on-chip memory's words, said to synthesis tools in two attributes.

    `ram_style`: block RAM even where it is shallow, since its words are wide. `no_rw_check`: a word may read as
    anything in the cycle that writes it. Here it reads as it was; but no program that the checker accepts reads one
    then, since reads wait for writes, and tiles of the array come far enough apart. A block RAM that has to keep the
    old word takes a register for each bit of a word, and a comparator of addresses.
    """

    def __init__(self, width: int, depth: int, ports_of_macro: int = MOST_MEMORY_PORTS) -> None:
        self.ports_of_macro = ports_of_macro
        super().__init__(shape=width, depth=depth, init=[], attrs={"ram_style": "block", "no_rw_check": 1})
