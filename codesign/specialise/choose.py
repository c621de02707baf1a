"""Which candidates a machine gets: of all sets within a budget, the one that saves most of what is asked for.

Each candidate is tried alone. A set can save at most what its candidates save alone, since they take turns at the same
work, and its machine has no less area and no shorter a path than with one of them: that bounds what a set is worth
before it is compiled for. Sets are tried in the order of their bounds, until no bound is better than what was found.
That candidates help each other is what this leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.effects import WORTH, host_nodes_added, runs, trial_line
from tilewright.codesign.advise.trials import Trial, Trials
from tilewright.codesign.points.priced import price_of
from tilewright.codesign.specialise.candidates import Candidate, each_once, together
from tilewright.codesign.specialise.objective import Objective
from tilewright.isa.errors import IsaError
from tilewright.isa.files.laid_over import INSTRUCTIONS
from tilewright.isa.machine.machine import Machine

CYCLES = Objective()
"""What is meant where nobody says what should be less."""

MOST_FAMILIES = 8
"""Sets are made of the best candidates of so many families: 2 to the power of these, and more with several of one."""

AT_ONCE = 4
"""Sets tried before it is looked whether a better one can follow."""


Bounded = tuple[float, "tuple[Tried, ...]"]
"""The most that a set can save, and the set."""


@dataclass(frozen=True)
class Tried:
    """A candidate alone: what it saves and costs, or why there is no such machine."""

    candidate: Candidate
    trial: Trial | None
    kge: float | None  # of logic that it adds
    why_not: str = ""

    def saved(self, base: Trial, objective: Objective) -> float:
        """The share of the objective, 0 where it does not compare."""
        return objective.saved(base, self.trial) if self.trial is not None else 0.0


@dataclass(frozen=True)
class TriedSet:
    """Several candidates together: the most that they could save, what they save, or why they were not compiled for."""

    names: tuple[str, ...]
    bound: float
    saved: float | None
    why_not: str = ""


@dataclass(frozen=True)
class Choice:
    """The candidates that the machine gets, the trial of them together, and how many sets were compiled for."""

    chosen: tuple[Tried, ...]
    trial: Trial
    sets_tried: int
    sets_left: int  # whose bound is no better
    sets: tuple[TriedSet, ...] = ()  # of several candidates, that were compiled for
    passed_over: tuple[Tried, ...] = ()  # worth something alone, and in no set: others of the most families save more

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(each.candidate for each in self.chosen)

    @property
    def instructions(self) -> tuple[Candidate, ...]:
        """All that they are, and what they need, each once."""
        return each_once(self.candidates)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.instructions)

    @property
    def change(self) -> Change | None:
        """What the machine's file says with them; None where there is none."""
        return together(self.candidates) if self.chosen else None


def try_alone(
    candidates: Sequence[Candidate],
    machine: Machine,
    base: Trial,
    trials: Trials,
    budget_kge: float,
    objective: Objective = CYCLES,
) -> list[Tried]:
    """Each candidate within the budget alone; others are priced, and no network is compiled for them."""
    found: list[Tried] = []
    affordable: list[tuple[int, Change]] = []
    for candidate in candidates:
        change = candidate.change
        try:
            kge = added_kge(change, machine, base)
        except IsaError as error:
            fault, place = str(error).splitlines()[0], f"{INSTRUCTIONS}.{candidate.name}: "
            found.append(Tried(candidate, None, None, f"no such machine: {fault.rpartition(place)[2]}"))
            continue
        if kge <= budget_kge:
            affordable.append((len(found), change))
            found.append(Tried(candidate, None, kge))
        else:
            found.append(Tried(candidate, None, kge, f"alone beyond the budget of {budget_kge:.1f} kGE"))
    for (position, _), trial in zip(affordable, trials.run([change for _, change in affordable]), strict=True):
        before = found[position]
        found[position] = Tried(before.candidate, trial, before.kge, why_not(base, trial, objective))
    return found


def added_kge(change: Change, machine: Machine, base: Trial) -> float:
    """The logic that a change adds. Raises IsaError where there is no such machine."""
    assert base.figures is not None
    return price_of(change.apply(machine), machine, with_clock=False).figures.kge - base.figures.kge


def why_not(base: Trial, trial: Trial, objective: Objective = CYCLES) -> str:
    """Why a candidate alone is worth nothing; empty if it is worth something."""
    if not objective.compares(base, trial):
        why = trial_line(base, trial).partition(": ")[2]
        fewer = runs(trial) and host_nodes_added(base, trial) < 0
        return f"{why}: say what one there counts as, with --host-cycles" if fewer else why
    if objective.saved(base, trial) < WORTH:
        return f"saves less than {100 * WORTH:.1f} % of the {objective.about}"
    return ""


def choose(
    tried: Sequence[Tried],
    machine: Machine,
    base: Trial,
    trials: Trials,
    budget_kge: float,
    objective: Objective = CYCLES,
) -> Choice:
    """The best set; an empty one where no candidate is worth its logic."""
    best: tuple[float, tuple[Tried, ...], Trial] = (0.0, (), base)
    count = 0
    told: list[TriedSet] = []
    kept, passed_over = _families(tried, base, objective)
    left = sorted(_sets(kept, base, objective), key=lambda of: -of[0])
    while left and left[0][0] > best[0]:
        now: list[Bounded] = []
        while left and len(now) < AT_ONCE and left[0][0] > best[0]:
            bound, of = left.pop(0)
            why = _why_not_affordable(of, machine, base, budget_kge)
            if why:
                told.append(TriedSet(_names(of), bound, None, why))
            else:
                now.append((bound, of))
        for (bound, of), trial in zip(now, _trials_of([of for _, of in now], trials), strict=True):
            count += 1
            saved = objective.saved(base, trial)
            if len(of) > 1:
                told.append(TriedSet(_names(of), bound, saved, trial.why_not))
            if saved > best[0] + 1e-9:
                best = (saved, of, trial)
    return Choice(best[1], best[2], count, len(left), tuple(told), passed_over)


def _trials_of(sets: Sequence[tuple[Tried, ...]], trials: Trials) -> Iterator[Trial]:
    """Each set's trial; of a single candidate it is there already."""
    made = iter(trials.run([_all(of) for of in sets if len(of) > 1]))
    for of in sets:
        alone = of[0].trial if len(of) == 1 else None
        yield next(made) if alone is None else alone


def _names(of: Sequence[Tried]) -> tuple[str, ...]:
    return tuple(each.candidate.label for each in of)


def _families(tried: Sequence[Tried], base: Trial, objective: Objective) -> tuple[list[list[Tried]], tuple[Tried, ...]]:
    """Candidates that are worth something, by family, those that save most first; and those of further families."""
    worth = sorted(
        (each for each in tried if each.trial is not None and not each.why_not),
        key=lambda each: -each.saved(base, objective),
    )
    families: dict[str, list[Tried]] = {}
    for each in worth:
        families.setdefault(each.candidate.family, []).append(each)
    every = list(families.values())
    return every[:MOST_FAMILIES], tuple(each for family in every[MOST_FAMILIES:] for each in family)


def _sets(kept: Sequence[Sequence[Tried]], base: Trial, objective: Objective) -> Iterator[Bounded]:
    """(the most that it can save, set), with at most one candidate of a family."""
    for size in range(1, len(kept) + 1):
        for some in combinations(kept, size):
            for of in product(*some):
                alone = [each.trial for each in of if each.trial is not None]
                yield objective.most_saved(base, alone), of


def _why_not_affordable(of: Sequence[Tried], machine: Machine, base: Trial, budget_kge: float) -> str:
    if len(of) == 1:
        return ""  # those beyond the budget were left out
    try:
        kge = added_kge(_all(of), machine, base)
    except IsaError as error:
        return str(error).splitlines()[0]
    return "" if kge <= budget_kge else f"{kge:.1f} kGE together, beyond the budget of {budget_kge:.1f} kGE"


def _all(of: Sequence[Tried]) -> Change:
    return together([each.candidate for each in of])
