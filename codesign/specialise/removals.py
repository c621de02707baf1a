"""What a machine could do without, once it has its new instructions: as fast for these networks, and less area."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

from tilewright.codesign.advise.changes import Change, Way, steps, without_instructions
from tilewright.codesign.advise.effects import can_go, runs_alike, share_saved
from tilewright.codesign.advise.engines import engines_fewer
from tilewright.codesign.advise.trials import Trial, Trials
from tilewright.isa.files.laid_over import INSTRUCTIONS
from tilewright.isa.machine.machine import Machine

ALL = "all of these"
"""What the last row is without."""


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
    do, instructions in no program, and loops longer than any program's.
    """
    changes = _changes(machine if chosen is None else chosen.apply(machine), base)
    found = _tried(changes, base, chosen, trials)
    going = [(change, removal) for change, removal, trial in found if can_go(base, trial)]
    going.sort(key=lambda each: (-each[1].mm2, each[1].name))
    together = []
    if len(going) > 1:
        every = replace(reduce(Change.beside, (change for change, _ in going)), name=ALL)
        together = [removal for _, removal, _ in _tried([every], base, chosen, trials)]
    return (*(removal for _, removal in going), *together)


def _changes(machine: Machine, base: Trial) -> list[Change]:
    unused = [name for name in machine.formats if name not in base.used]
    return [
        *(without_instructions([name]) for name in unused),
        *_shorter_loops(machine, base.longest),
        *(change for change in steps(machine) if change.way is Way.DOWN),
        *engines_fewer(machine),
    ]


def _shorter_loops(machine: Machine, longest: Mapping[str, Mapping[str, int]]) -> Iterator[Change]:
    """Each instruction with loops that count as far as its programs need, and no further."""
    for name, trips in longest.items():
        loops = {loop.name: loop.bits for loop in machine.format(name).loops}
        needed = {loop: max(1, (trips[loop] - 1).bit_length()) for loop in loops}
        fewer = sum(loops.values()) - sum(needed.values())
        if fewer:
            over = {INSTRUCTIONS: {name: {"loops": needed}}}
            yield Change(f"{fewer} bits of the loops of {name}", Way.WITHOUT, over)


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
