"""What an instruction takes of its engine, of memories and of the bus: whoever estimates or counts asks its template.

What instructions take together, where they meet, the cycle model says (`simulator/kernel/`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tilewright.isa.machine.encoding import InstructionFormat, Operand


@dataclass(frozen=True, slots=True)
class Task:
    """An instruction as far as its work depends on it.

    Example: `Task(requantize, (2, 8, 8))` goes through 128 words, wherever they are on chip.
    """

    format: InstructionFormat
    trips: tuple[int, ...]  # of each loop, outermost first
    adds: bool = False  # to what its destination holds
    place: int = 0  # the byte of DRAM at which it begins, or one that `dram_period` makes the same
    strides: tuple[int, ...] = ()  # in DRAM, of each loop

    @property
    def iterations(self) -> int:
        return prod(self.trips)

    @property
    def reduced(self) -> int:
        """Iterations that make one result."""
        return prod(trip for loop, trip in zip(self.format.loops, self.trips, strict=True) if loop.is_reduce)


class BlockAccess(NamedTuple):
    """So many reads or writes of an operand's block, from cycle `begin` after the start to before `end`."""

    operand: Operand
    times: int
    begin: int
    end: int
    is_write: bool = False
    is_first: bool = False  # another engine that wants the port in the same cycle waits


@dataclass(frozen=True, slots=True)
class Work:
    """What an instruction takes if nothing else is in its way, with DRAM as docs/microarchitecture.md has it.

    `busy` and `complete` are cycles from its start: until its engine can start the next one, and until its results are
    there. The others are what it takes of a part of the machine, each a cycle of that part at the least.
    """

    busy: int
    complete: int
    accesses: tuple[BlockAccess, ...] = ()  # to memories on chip, without those of single elements by lanes
    vectors: int = 0  # through an array
    weight_rows: int = 0  # into it
    iterations: int = 0  # of a vector engine
    read_beats: int = 0  # of the bus
    write_beats: int = 0
    bytes_written: int = 0
    port: int = 0  # the AXI port of these
