"""What `codesign` asks about a template: units of a price, accesses, energy, products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codesign.price.process import LogicEnergy
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Accesses:
    """Counts by memory. A read is of a block of words at once, in every storage of a bank; a write is of one word."""

    reads: Counter[str]
    writes: Counter[str]
    lookups: Counter[str]  # of one element, by one lane

    @staticmethod
    def none() -> Accesses:
        return Accesses(Counter(), Counter(), Counter())

    def __add__(self, other: Accesses) -> Accesses:
        return Accesses(self.reads + other.reads, self.writes + other.writes, self.lookups + other.lookups)


class Facet(ABC):
    """The facts of a template; what is not abstract has the answer of engines that only move."""

    @abstractmethod
    def units(self, engine: Engine) -> Mapping[str, str]:
        """What a report calls an engine's hardware, by path."""

    @abstractmethod
    def accesses(self, machine: Machine, instruction: Instruction) -> Accesses:
        """What a run of an instruction does to memories on chip; it does not depend on data."""

    def energy(
        self, engine: Engine, figures: LogicEnergy, iterations: int, areas_um2: Mapping[str, float]
    ) -> tuple[str, float] | None:
        """(unit, pJ) of what iterations switch in an engine's logic; None where nobody has measured it."""
        return None

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        """Multipliers of data, by unit."""
        return {}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        """The most products that an engine can do in a cycle, one with a weight of 1 included."""
        return 0
