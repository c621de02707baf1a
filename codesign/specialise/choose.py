"""Which candidates a machine gets: of all sets within a budget, the one with the fewest cycles.

Each candidate is tried alone. A set can save at most what its candidates save alone, since they take turns at the same
work: that bounds what a set is worth before it is compiled for. Sets are tried in the order of their bounds, until no
bound is better than what was found. That candidates help each other is what this leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.effects import WORTH, host_nodes_added, runs, runs_alike, share_saved, trial_line
from tilewright.codesign.advise.trials import Trial, Trials
from tilewright.codesign.points.priced import price_of
from tilewright.codesign.specialise.candidates import Candidate, together
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine

MOST_FAMILIES = 8
"""Sets are made of the best candidates of so many families: 2 to the power of these, and more with several of one."""

AT_ONCE = 4
"""Sets tried before it is looked whether a better one can follow."""


@dataclass(frozen=True)
class Tried:
    """A candidate alone: what it saves and costs, or why there is no such machine."""

    candidate: Candidate
    trial: Trial | None
    kge: float | None  # of logic that it adds
    why_not: str = ""

    def saved(self, base: Trial) -> float:
        """The share of the cycles, 0 where it does not compare."""
        return share_saved(base, self.trial) if self.trial is not None and runs_alike(base, self.trial) else 0.0


@dataclass(frozen=True)
class Choice:
    """The candidates that the machine gets, the trial of them together, and how many sets were compiled for."""

    chosen: tuple[Tried, ...]
    trial: Trial
    sets_tried: int
    sets_left: int  # whose bound is no better

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.candidate.name for each in self.chosen)


def try_alone(
    candidates: Sequence[Candidate], machine: Machine, base: Trial, trials: Trials, budget_kge: float
) -> list[Tried]:
    """Each candidate within the budget alone; others are priced, and no network is compiled for them."""
    found: list[Tried] = []
    affordable: list[tuple[int, Change]] = []
    for candidate in candidates:
        change = candidate.change
        try:
            kge = added_kge(change, machine, base)
        except IsaError as error:
            found.append(Tried(candidate, None, None, str(error).splitlines()[0]))
            continue
        if kge <= budget_kge:
            affordable.append((len(found), change))
            found.append(Tried(candidate, None, kge))
        else:
            found.append(Tried(candidate, None, kge, f"alone beyond the budget of {budget_kge:.1f} kGE"))
    for (position, _), trial in zip(affordable, trials.run([change for _, change in affordable]), strict=True):
        before = found[position]
        found[position] = Tried(before.candidate, trial, before.kge, why_not(base, trial))
    return found


def added_kge(change: Change, machine: Machine, base: Trial) -> float:
    """The logic that a change adds. Raises IsaError where there is no such machine."""
    assert base.figures is not None
    return price_of(change.apply(machine), machine, with_clock=False).figures.kge - base.figures.kge


def why_not(base: Trial, trial: Trial) -> str:
    """Why a candidate alone is worth nothing; empty if it is worth something."""
    if not runs(trial) or host_nodes_added(base, trial) > 0:
        return trial_line(base, trial).partition(": ")[2]
    if host_nodes_added(base, trial) == 0 and share_saved(base, trial) < WORTH:
        return f"saves less than {100 * WORTH:.1f} % of the cycles"
    return ""


def choose(tried: Sequence[Tried], machine: Machine, base: Trial, trials: Trials, budget_kge: float) -> Choice:
    """The best set; an empty one where no candidate is worth its logic."""
    best: tuple[float, tuple[Tried, ...], Trial] = (0.0, (), base)
    count = 0
    sets = sorted(_sets(tried, base), key=lambda of: -of[0])
    left = list(sets)
    while left and left[0][0] > best[0]:
        now: list[tuple[Tried, ...]] = []
        while left and len(now) < AT_ONCE and left[0][0] > best[0]:
            _, of = left.pop(0)
            if _is_affordable(of, machine, base, budget_kge):
                now.append(of)
        alone = {id(of): of[0].trial for of in now if len(of) == 1}
        several = [of for of in now if len(of) > 1]
        made = dict(zip(map(id, several), trials.run([_all(of) for of in several]), strict=True))
        for of in now:
            trial = alone.get(id(of)) or made[id(of)]
            count += 1
            if runs_alike(base, trial) and share_saved(base, trial) > best[0] + 1e-9:
                best = (share_saved(base, trial), of, trial)
    return Choice(best[1], best[2], count, len(left))


def _sets(tried: Sequence[Tried], base: Trial) -> Iterator[tuple[float, tuple[Tried, ...]]]:
    """(the most that it can save, set), with at most one candidate of a family."""
    worth = sorted(
        (each for each in tried if each.trial is not None and not each.why_not), key=lambda t: -t.saved(base)
    )
    families: dict[str, list[Tried]] = {}
    for each in worth:
        families.setdefault(each.candidate.family, []).append(each)
    kept = list(families.values())[:MOST_FAMILIES]
    for size in range(1, len(kept) + 1):
        for some in combinations(kept, size):
            for of in product(*some):
                yield 1 - prod(1 - each.saved(base) for each in of), of


def _is_affordable(of: Sequence[Tried], machine: Machine, base: Trial, budget_kge: float) -> bool:
    if len(of) == 1:
        return True  # those beyond the budget were left out
    try:
        return added_kge(_all(of), machine, base) <= budget_kge
    except IsaError:
        return False


def _all(of: Sequence[Tried]) -> Change:
    return together([each.candidate for each in of])
