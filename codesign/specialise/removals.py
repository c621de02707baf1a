"""What a machine could do without, once it has its new instructions: as fast for these networks, and less area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

from tilewright.codesign.advise.changes import Change, Way, steps, without_instructions
from tilewright.codesign.advise.effects import can_go, runs_alike, share_saved
from tilewright.codesign.advise.engines import engines_fewer
from tilewright.codesign.advise.trials import Trial, Trials
from tilewright.codesign.specialise.less import STATEMENT, with_less
from tilewright.isa.machine.machine import Machine

ALL = "all of these"
"""What the last row is without. Of changes that contradict each other, such as two of a statement, the first."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that can go: no network takes more cycles without it, and the machine is smaller.

    All of them at once may cost some cycles: then `share_saved` is below 0.
    """

    name: str
    kge: float  # less
    mm2: float  # less, memories included
    share_saved: float  # of the cycles

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def removals(machine: Machine, base: Trial, chosen: Change | None, trials: Trials) -> tuple[Removal, ...]:
    """What can go one by one, and all of it at once last; most area first.

    `base` is the trial of the machine with what was chosen. Tried are keys a step down, engines whose work others can
    do, instructions in no program, and what no program needs of the others (less.py).
    """
    changes = _changes(machine if chosen is None else chosen.apply(machine), base)
    found = _tried(changes, base, chosen, trials)
    going = [(change, removal) for change, removal, trial in found if can_go(base, trial)]
    going.sort(key=lambda each: (-each[1].mm2, each[1].name))
    together = []
    if len(going) > 1:
        every = replace(reduce(Change.beside, _at_once([change for change, _ in going])), name=ALL)
        together = [removal for _, removal, _ in _tried([every], base, chosen, trials)]
    return (*(removal for _, removal in going), *together)


def _at_once(changes: Sequence[Change]) -> list[Change]:
    """The changes without those that contradict an earlier one."""
    found: list[Change] = []
    for change in changes:
        if not any(_contradict(change.over, other.over) for other in found):
            found.append(change)
    return found


def _contradict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both say something of the same key, or of an instruction of which one of them says the statement."""
    for key in one.keys() & other.keys():
        if not (isinstance(one[key], Mapping) and isinstance(other[key], Mapping)):
            return True
        if STATEMENT in one[key] or STATEMENT in other[key] or _contradict(one[key], other[key]):
            return True
    return False


def _changes(machine: Machine, base: Trial) -> list[Change]:
    unused = [name for name in machine.formats if name not in base.used]
    return [
        *(without_instructions([name]) for name in unused),
        *with_less(machine, base),
        *(change for change in steps(machine) if change.way is Way.DOWN),
        *engines_fewer(machine),
    ]


def _tried(
    changes: Sequence[Change], base: Trial, chosen: Change | None, trials: Trials
) -> list[tuple[Change, Removal, Trial]]:
    """Of changes with which all networks run as before: what goes, and the trial."""
    tried = [change if chosen is None else chosen.beside(change) for change in changes]
    return [
        (change, Removal(change.name, *_less(base, trial), share_saved(base, trial)), trial)
        for change, trial in zip(changes, trials.run(tried), strict=True)
        if runs_alike(base, trial)
    ]


def _less(base: Trial, trial: Trial) -> tuple[float, float]:
    """(kGE, mm²) that a trial has less."""
    assert base.figures is not None and trial.figures is not None
    return base.figures.kge - trial.figures.kge, base.figures.area_mm2 - trial.figures.area_mm2
