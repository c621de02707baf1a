"""Memory blocks: storage that is no flip-flops, on a chip or on an FPGA."""

from __future__ import annotations

from amaranth.lib.memory import Memory


class Block(Memory):
    """Storage with one read and one write port: an SRAM macro on a chip, block RAM on an FPGA."""
