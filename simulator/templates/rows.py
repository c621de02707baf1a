"""The rows of one format's instructions in the table that the cycle kernel steps through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector import ROWS, VectorWalk, vector_walk
from tilewright.simulator.regions import Region

Numbers = NDArray[np.object_]
"""Python's own integers, which never wrap around: what is too large for the table is an error."""


def nest_depth(machine: Machine) -> int:
    """The most loops that an instruction is walked over."""
    return machine.fact(_nest_depth)


def _nest_depth(machine: Machine) -> int:
    return max(len(vector_walk(format).loops) for format in machine.formats.values())


@dataclass(frozen=True)
class Rows:
    """The rows of one format's instructions being filled, the values of their fields, and where a row's parts begin."""

    machine: Machine
    format: InstructionFormat
    values: Numbers  # [instruction, field]
    table: NDArray[np.int64]
    first_words: Mapping[str, int]  # the place of each memory's first word among all
    regions: tuple[Region, ...]
    loops: int
    waits_column: int
    trips_column: int
    is_reduce_column: int
    bases_column: int
    steps_column: int

    def field(self, name: str) -> Numbers:
        return self.values[:, self.format.positions[name]]

    @cached_property
    def walk(self) -> VectorWalk:
        """The loops as they are walked: of a vector engine, with those over rows of a tile and parts of a word."""
        return vector_walk(self.format)

    @property
    def trips(self) -> list[Numbers]:
        """The trip counts of each loop that is walked, outermost first."""
        return [
            self.same(self.walk.counts[loop.name]) if loop.name in self.walk.counts else self.field(f"trip.{loop.name}")
            for loop in self.walk.loops
        ]

    def same(self, number: int) -> Numbers:
        """One number for all instructions."""
        return np.full(len(self.values), number, object)

    def strides(self, operand: Operand, loop: str) -> Numbers:
        """Those of an operand over a loop; 0 where it does not move."""
        if loop == ROWS:
            return self.same(int(loop in operand.loops))
        return self.field(f"{operand.name}.{loop}") if loop in operand.loops else np.zeros(len(self.values), object)

    def product(self, factors: Sequence[Numbers]) -> Numbers:
        return prod(factors, start=np.ones(len(self.values), object))

    def fill_operand(self, column: int, operand: Operand, first: int | Numbers, loops: int | None = None) -> None:
        """An operand's first address and its steps over all loops, or over the outermost `loops` alone.

        When a loop moves on, all inside it return to their start: its step is its stride less what they have moved.
        """
        names = [loop.name for loop in self.walk.loops]
        self.table[:, self.bases_column + column] = first + self.field(f"{operand.name}.base")
        moved = np.zeros(len(self.values), object)
        first_step = self.steps_column + column * self.loops + self.loops - len(names)
        for loop in reversed(range(len(names) if loops is None else loops)):
            strides = self.strides(operand, names[loop])
            self.table[:, first_step + loop] = strides - moved
            moved = moved + strides * (self.trips[loop] - 1)
