"""What `codesign` asks about a template: units of a price, energy, products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class LogicEnergy:
    """What logic takes, in pJ, as `price.activity` measures it."""

    clock_pj_per_flip_flop: float  # in every cycle
    array_pj_per_mac: float  # of each processing element, for each vector
    lane_pj_per_iteration_per_um2: float  # of a lane's area


@dataclass(frozen=True, slots=True)
class LayerWork:
    """What an engine does in a layer: its instructions, the bytes that they move to or from DRAM, and the cycles."""

    instructions: tuple[Instruction, ...]
    moved_bytes: int
    cycles: int

    def at_most(self, cycles: int) -> int:
        return min(self.cycles, cycles)


class Facet(ABC):
    """The facts of a template; what is not abstract has the answer of engines that only move."""

    @abstractmethod
    def units(self, machine: Machine, engine: Engine) -> Mapping[str, str]:
        """What a report calls an engine's hardware, by path."""

    def energy(
        self, engine: Engine, figures: LogicEnergy, iterations: int, areas_um2: Mapping[str, float]
    ) -> tuple[str, float] | None:
        """(unit, pJ) of what iterations switch in an engine's logic; None where nobody has measured it."""
        return None

    @abstractmethod
    def cycles_in_flight(self, machine: Machine, engine: Engine, work: LayerWork) -> int:
        """Cycles of a layer in which something goes through an engine, as far as its instructions say."""

    def events(self, machine: Machine, engine: Engine, work: LayerWork) -> Mapping[str, int]:
        """By unit: how often registers with an enable of their own are clocked, where that is not in these cycles."""
        return {}

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        """Multipliers of data, by unit."""
        return {}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        """The most products that an engine can do in a cycle, one with a weight of 1 included."""
        return 0
