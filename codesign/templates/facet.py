"""What `codesign` asks about a template: units of a price, energy, products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class LogicEnergy:
    """What logic takes, in pJ, as `price.activity` measures it."""

    clock_pj_per_flip_flop: float  # in every cycle
    array_pj_per_mac: float  # of each processing element, for each vector
    lane_pj_per_iteration_per_um2: float  # of a lane's area


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

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        """Multipliers of data, by unit."""
        return {}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        """The most products that an engine can do in a cycle, one with a weight of 1 included."""
        return 0
