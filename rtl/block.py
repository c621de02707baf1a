"""Memory blocks: storage that is no flip-flops, on a chip or on an FPGA."""

from __future__ import annotations

from amaranth.lib.memory import Memory


class Block(Memory):
    """Storage with one read and one write port: an SRAM macro on a chip, block RAM on an FPGA."""


class WordBlock(Block):
    """Storage of an on-chip memory's words, said to synthesis tools in two attributes.

    `ram_style`: block RAM even where it is shallow, since its words are wide. `no_rw_check`: a word may read as
    anything in the cycle that writes it. Here it reads as it was; but no program that the checker accepts reads one
    then, since reads wait for writes, and tiles of the array come far enough apart. A block RAM that has to keep the
    old word takes a register for each bit of a word, and a comparator of addresses.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(shape=width, depth=depth, init=[], attrs={"ram_style": "block", "no_rw_check": 1})
