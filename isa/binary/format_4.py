"""Programs of binaries of format 4, in which all instructions of a machine have the length of its longest."""

from __future__ import annotations

from tilewright.isa.machine.machine import Machine

FORMAT_4 = 4


def instruction_bytes(machine: Machine) -> int:
    """The length of each instruction: the fields of the longest, up to a multiple of 8 bytes and of a beat."""
    bits = max((format.bits for format in machine.formats.values()), default=8)
    step = max(8, machine.dram.bus_bytes)
    return -(-bits // (8 * step)) * step
