"""New instructions for a machine and some networks: which, what they are worth, and what else the area would buy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.codesign.advise.changes import Change, Way, steps
from tilewright.codesign.advise.effects import ran, runs_alike, share_saved, trial_line
from tilewright.codesign.advise.engines import engines_more
from tilewright.codesign.advise.kept_trials import trial_maker
from tilewright.codesign.advise.trials import Bench, Done, NoAdvice, Trial, Trials
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import price_of
from tilewright.codesign.specialise.candidates import Candidate, candidates_of, together
from tilewright.codesign.specialise.choose import Choice, Tried, choose, try_alone
from tilewright.codesign.specialise.observe import Refused, observe
from tilewright.codesign.specialise.written import NotWritten
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Proposal:
    """Candidates by the words that they save, and layers for which no statement was found."""

    machine: Machine
    candidates: tuple[Candidate, ...]
    refused: tuple[Refused, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine.name,
            "candidates": [
                {
                    "name": each.name,
                    "about": each.about,
                    "words_saved": each.words_saved,
                    "networks": list(each.networks),
                    "places": [{"network": use.network, "layer": use.layer} for use in each.uses],
                    "over": each.over,
                }
                for each in self.candidates
            ],
            "refused": [asdict(each) for each in self.refused],
        }


@dataclass(frozen=True)
class Control:
    """The best that a step of a size, or a further engine, gains for no more area than the instructions."""

    trial: Trial | None
    tried: int
    mm2: float  # that the instructions add


@dataclass(frozen=True)
class Specialised:
    """The answer: the instructions chosen, what each candidate was worth, and what they are compared with."""

    proposal: Proposal
    base: Trial
    tried: tuple[Tried, ...]
    choice: Choice
    budget_kge: float
    held_out: tuple[tuple[Trial, Trial], ...]  # (as it is, with the instructions), one network each
    control: Control | None

    @property
    def over(self) -> dict[str, Any]:
        """What the file of the new machine says beyond the old one's."""
        return dict(together([each.candidate for each in self.choice.chosen]).over) if self.choice.chosen else {}

    def as_json(self) -> dict[str, Any]:
        return {
            **self.proposal.as_json(),
            "budget_kge": self.budget_kge,
            "base": self.base.as_json(),
            "tried": [
                {
                    "name": each.candidate.name,
                    "kge": each.kge,
                    "share_saved": each.saved(self.base),
                    "why_not": each.why_not,
                    "is_chosen": each.candidate.name in self.choice.names,
                }
                for each in self.tried
            ],
            "chosen": sorted(self.choice.names),
            "sets_tried": self.choice.sets_tried,
            "sets_left": self.choice.sets_left,
            "with": self.choice.trial.as_json(),
            "share_saved": share_saved(self.base, self.choice.trial),
            "held_out": [{"before": old.as_json(), "after": new.as_json()} for old, new in self.held_out],
            "control": None
            if self.control is None
            else {
                "mm2": self.control.mm2,
                "tried": self.control.tried,
                "best": None if self.control.trial is None else self.control.trial.as_json(),
            },
        }


def propose(networks: Sequence[Network], machine: Machine) -> Proposal:
    """Candidates for the networks, without trying them. Raises NoAdvice where the machine has no array."""
    try:
        observed = observe(networks, machine)
    except NotWritten as error:
        raise NoAdvice(str(error)) from error
    refused = tuple(dict.fromkeys(observed.refused))
    return Proposal(machine, tuple(candidates_of(observed.uses, machine)), refused)


def specialise_machine(
    networks: Sequence[Network],
    machine: Machine,
    budget: float,
    held_out: Sequence[Network] = (),
    effort: int = 1,
    jobs: int | None = None,
    with_control: bool = True,
    done: Done = lambda finished, asked: None,
    tell: Tell = lambda line: None,
    keep: Path | None = None,
) -> Specialised:
    """Choose instructions that may add a share `budget` of the machine's logic: 0.1 is a tenth.

    With `keep`, a folder, trials are kept there, and the same question goes on where it stopped. Deterministic,
    whatever the number of jobs. Raises NoAdvice where a network fails on the machine as it is, CompileError and
    PriceError.
    """
    proposal = propose(networks, machine)
    make = trial_maker(keep)
    bench = Bench(machine, tuple(networks), effort, with_price=True)
    tell(f"{len(proposal.candidates)} candidates; pricing and compiling for {machine.name} as it is")
    base = make(bench, None)
    for failed in base.failures:
        raise NoAdvice(f"{failed.network} on {machine.name} fails in the stage {failed.stage}: {failed.reason}")
    assert base.figures is not None
    budget_kge = budget * base.figures.kge
    with Trials(bench, jobs or os.cpu_count() or 1, done, lambda trial: tell(trial_line(base, trial)), make) as trials:
        tried = try_alone(proposal.candidates, machine, base, trials, budget_kge)
        choice = choose(tried, machine, base, trials, budget_kge)
        control = _control(machine, base, choice, trials) if with_control and choice.chosen else None
    pairs = []
    for network in held_out if choice.chosen else ():
        alone = Bench(machine, (network,), effort, with_price=True)
        chosen = together([each.candidate for each in choice.chosen])
        pairs.append((make(alone, None), make(alone, chosen)))
        tell(f"held out, {network.name}: {trial_line(pairs[-1][0], pairs[-1][1])}")
    return Specialised(proposal, base, tuple(tried), choice, budget_kge, tuple(pairs), control)


def _control(machine: Machine, base: Trial, choice: Choice, trials: Trials) -> Control:
    """What else no more area buys: every key a step further, and a second engine of each kind."""
    assert base.figures is not None and choice.trial.figures is not None
    mm2 = choice.trial.figures.area_mm2 - base.figures.area_mm2
    more = [each for each in steps(machine) if each.way in (Way.UP, Way.CHOICE)]
    affordable = [change for change in (*more, *engines_more(machine)) if _costs_at_most(change, machine, base, mm2)]
    found = [trial for trial in trials.run(affordable) if runs_alike(base, trial)]
    best = max(found, key=lambda trial: share_saved(base, trial), default=None)
    return Control(best, len(affordable), mm2)


def _costs_at_most(change: Change, machine: Machine, base: Trial, mm2: float) -> bool:
    assert base.figures is not None
    try:
        priced = price_of(change.apply(machine), machine, with_clock=False)
    except IsaError:
        return False
    return priced.figures.area_mm2 - base.figures.area_mm2 <= mm2


def gains(before: Trial, after: Trial) -> list[tuple[str, int, int]]:
    """(network, cycles before, cycles after) of the networks that run on both."""
    return [(old.network, old.cycles, new.cycles) for old, new in zip(ran(before), ran(after), strict=True)]
