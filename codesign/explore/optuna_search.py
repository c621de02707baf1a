"""Searches by Optuna (optuna.org): TPE and NSGA-II ask for points in batches, and are told of them in their order.

A batch has a fixed size. So which points are asked for depends on the space, the budget and the figures alone, and not
on how many workers there are or which of them is first. Neither is told of a point outside the constraints, or without
figures, more than that.
"""

from __future__ import annotations

import math

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, TPESampler
from optuna.trial import Trial, TrialState

from tilewright.codesign.explore.space import Axis, Point, Space
from tilewright.codesign.explore.spread import STARTS, Batches, spread_points

SEED = 1

BATCH = 8
"""Points that TPE asks for before it is told of them: it works as well with two workers as with eight."""

GENERATIONS = 10
"""So many generations of NSGA-II share the budget."""

LEAST_POPULATION, MOST_POPULATION = 8, 50
"""Of a generation; 50 is Optuna's own choice."""

TRIES = 16
"""Points that are asked for before one that is new and allowed; then the next spread point is taken."""


def tpe_batches(space: Space, budget: int) -> Batches:
    """Estimates where good points are dense, from all that it has been told (Bergstra et al., 2011)."""
    return _batches(space, budget, TPESampler(n_startup_trials=STARTS, seed=SEED), BATCH)


def nsga_batches(space: Space, budget: int) -> Batches:
    """Crosses and mutates the best of the last generation (Deb et al., 2002)."""
    population = max(LEAST_POPULATION, min(MOST_POPULATION, budget // GENERATIONS))
    return _batches(space, budget, NSGAIISampler(population_size=population, seed=SEED), population)


def _batches(space: Space, budget: int, sampler: BaseSampler, size: int) -> Batches:
    """Begins with spread points; ends early when every allowed point was asked for."""
    asker = _Asker(space, sampler)
    while budget > 0 and (trials := asker.ask(min(size, budget))):
        budget -= len(trials)
        known = yield list(trials)
        for point, trial in trials.items():
            asker.tell(trial, known.get(point))


class _Asker:
    """An Optuna study over the places of values on their axes."""

    def __init__(self, space: Space, sampler: BaseSampler) -> None:
        self._space = space
        self._axes = {axis.name: _distribution(axis) for axis in space.axes}
        self._spread = spread_points(space, space.size)
        self._asked: set[Point] = set()
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it says that there is a study, with a name by chance
        self._study = optuna.create_study(directions=["minimize"] * len(space.objectives), sampler=sampler)
        optuna.logging.set_verbosity(before)

    def ask(self, count: int) -> dict[Point, Trial]:
        """So many allowed points that were never asked for; fewer when no others are left."""
        found: dict[Point, Trial] = {}
        while len(found) < count and (asked := self._new()):
            point, trial = asked
            found[point] = trial
            self._asked.add(point)
        return found

    def _new(self) -> tuple[Point, Trial] | None:
        for _ in range(TRIES if len(self._asked) >= STARTS else 0):
            trial = self._study.ask(self._axes)
            point = self._point(trial)
            if point in self._asked:
                self._study.tell(trial, state=TrialState.FAIL)
            elif not self._space.is_allowed(point):
                self.tell(trial, None)
            else:
                return point, trial
        for point in self._spread:
            if point not in self._asked:
                places = (axis.values.index(value) for axis, value in zip(self._space.axes, point, strict=True))
                self._study.enqueue_trial(dict(zip(self._axes, places, strict=True)))
                return point, self._study.ask(self._axes)
        return None

    def _point(self, trial: Trial) -> Point:
        return tuple(axis.values[trial.params[axis.name]] for axis in self._space.axes)

    def tell(self, trial: Trial, losses: tuple[float, ...] | None) -> None:
        """What a point came to; None of one that has no figures, or that is outside the constraints."""
        is_feasible = losses is not None and all(map(math.isfinite, losses))
        trial.set_constraint("is a point with figures", 0.0 if is_feasible else 1.0)
        self._study.tell(trial, losses if losses is not None and is_feasible else [0.0] * len(self._space.objectives))


def _distribution(axis: Axis) -> BaseDistribution:
    """The places of an axis's values: in order where they are numbers, as different things where they are not."""
    places = range(len(axis.values))
    if axis.overlay is None and all(isinstance(value, int | float) for value in axis.values):
        return IntDistribution(0, len(places) - 1)
    return CategoricalDistribution(tuple(places))
