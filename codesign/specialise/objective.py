"""What a set of instructions is chosen by: cycles, time, energy, both of these, or area, over weighted networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from tilewright.codesign.advise.effects import ran, runs, runs_alike
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.specialise.goal import ABOUT, SavedQuantity

Figure = Callable[[NetworkFigures], float]
"""One of a network that runs."""


class NoFigure(Exception):
    """What the objective needs and nobody knows."""


@dataclass(frozen=True)
class Objective:
    """A goal, and how often each network runs beside the others.

    With weights, sums over all networks count, as in a space of `explore`, and a network that is not named has a weight
    of 1. Without any, every network counts alike, however long it takes: by the geometric mean. A node on the host
    counts `host_cycles`; without such a price, trials with other nodes there do not compare, and save nothing.
    """

    goal: SavedQuantity = SavedQuantity.CYCLES
    weights: Mapping[str, float] = field(default_factory=dict)
    host_cycles: float | None = None

    @property
    def needs_clock(self) -> bool:
        return self.goal in (SavedQuantity.TIME, SavedQuantity.ENERGY_DELAY)

    @property
    def about(self) -> str:
        return ABOUT[self.goal]

    def saved(self, base: Trial, trial: Trial) -> float:
        """The share that a trial saves: 0.1 is a tenth less; 0 where less or more of the networks runs."""
        return 1 - self.work(base, trial) * self.machine(base, trial) if self.compares(base, trial) else 0.0

    def compares(self, base: Trial, trial: Trial) -> bool:
        """Whether all networks run, and as much of each on the machine as before, or the rest has a price."""
        return runs_alike(base, trial) or (self.host_cycles is not None and runs(trial))

    def work(self, base: Trial, trial: Trial) -> float:
        """What the networks take beside what they took before: 0.9 is a tenth less. Raises NoFigure."""
        return self._by_goal(partial(self._ratio, base, trial))

    def machine(self, base: Trial, trial: Trial) -> float:
        """What the machine itself makes of that: by its clock, or by its area. Raises NoFigure."""
        old, new = base.figures, trial.figures
        assert old is not None and new is not None
        if self.goal is SavedQuantity.AREA:
            return new.area_mm2 / old.area_mm2
        if not self.needs_clock:
            return 1.0
        if old.clock_ns is None or new.clock_ns is None:
            raise NoFigure("the clock is not known")
        return new.clock_ns / old.clock_ns

    def most_saved(self, base: Trial, alone: Sequence[Trial]) -> float:
        """The share that changes save at once at most, if none saves more beside the others than alone.

        In each network what they save is added; the machine is no smaller and no faster than with one of them.
        """
        work = self._by_goal(partial(self._joined, base, alone))
        return 1 - work * max(self.machine(base, trial) for trial in alone)

    def _by_goal(self, left: Callable[[Figure], float]) -> float:
        """What is left of what the goal is about, from what is left of a figure."""
        match self.goal:
            case SavedQuantity.CYCLES | SavedQuantity.TIME | SavedQuantity.AREA:
                return left(self._cycles)
            case SavedQuantity.ENERGY:
                return left(energy_of)
            case SavedQuantity.ENERGY_DELAY:
                return left(self._cycles) * left(energy_of)

    def _cycles(self, of: NetworkFigures) -> float:
        """Those of the machine, and what its nodes on the host count as."""
        return of.cycles_per_image + (self.host_cycles or 0.0) * of.host_nodes

    def _ratio(self, base: Trial, trial: Trial, of: Figure) -> float:
        return self._mean([(old.network, of(old), of(new)) for old, new in zip(ran(base), ran(trial), strict=True)])

    def _joined(self, base: Trial, alone: Sequence[Trial], of: Figure) -> float:
        saved: dict[str, float] = {}
        for trial in alone:
            for old, new in zip(ran(base), ran(trial), strict=True):
                saved[old.network] = saved.get(old.network, 0.0) + max(0.0, of(old) - of(new))
        return self._mean([(old.network, of(old), max(0.0, of(old) - saved[old.network])) for old in ran(base)])

    def _mean(self, pairs: Sequence[tuple[str, float, float]]) -> float:
        """What is left over all networks, of (network, before, after)."""
        pairs = [(name, before, after) for name, before, after in pairs if before]
        if not pairs:
            return 1.0
        if self.weights:
            weighted = [(self.weights.get(name, 1.0), before, after) for name, before, after in pairs]
            return sum(each[0] * each[2] for each in weighted) / sum(each[0] * each[1] for each in weighted)
        return prod((after / before) ** (1 / len(pairs)) for _, before, after in pairs)


def energy_of(of: NetworkFigures) -> float:
    """Millijoules for an image, on chip and of DRAM. Raises NoFigure where one of them is not known."""
    if of.mj_per_image is None:
        lacking = ", ".join(of.unmeasured) or "the logic"
        raise NoFigure(f"the energy of {of.network} is not known: the process has no figure for {lacking}")
    return of.mj_per_image
