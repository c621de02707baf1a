"""New instructions for a machine and some networks: which, what they are worth, and what else the area would buy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.codesign.advise.changes import Change, Way, steps
from tilewright.codesign.advise.effects import runs_alike, trial_line
from tilewright.codesign.advise.engines import engines_more
from tilewright.codesign.advise.kept_trials import trial_maker
from tilewright.codesign.advise.trials import Bench, Done, Elsewhere, Make, NoAdvice, Trial, Trials
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import price_of
from tilewright.codesign.price.clock import Clock
from tilewright.codesign.price.known_clock import known_clock
from tilewright.codesign.price.process import load_process
from tilewright.codesign.specialise.answer import Clocks, Control, InstructionProposal, Specialised
from tilewright.codesign.specialise.candidates import candidates_of
from tilewright.codesign.specialise.choose import Choice, choose, try_alone
from tilewright.codesign.specialise.given import given_candidates, not_given, verdicts
from tilewright.codesign.specialise.lacking import with_others
from tilewright.codesign.specialise.objective import NoFigure, Objective
from tilewright.codesign.specialise.observe import observe
from tilewright.codesign.specialise.predict import predictions
from tilewright.codesign.specialise.removals import removals
from tilewright.codesign.specialise.written import NotWritten
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """What is asked: instructions for a machine that save networks most of an objective.

    They may add a share `budget` of the machine's logic: 0.1 is a tenth. `held_out` have no say. `given` is a file with
    a person's instructions, which are candidates, too.
    """

    networks: tuple[Network, ...]
    machine: Machine
    budget: float
    held_out: tuple[Network, ...] = ()
    objective: Objective = field(default_factory=Objective)
    given: Path | None = None
    effort: int = 1
    with_control: bool = True
    with_removals: bool = True
    with_clock: bool = True

    @property
    def bench(self) -> Bench:
        return Bench(self.machine, self.networks, self.effort, with_price=True, with_clock=self.objective.needs_clock)


def propose(networks: Sequence[Network], machine: Machine) -> InstructionProposal:
    """Candidates for the networks, without trying them. Raises NoAdvice where the machine has no array."""
    try:
        observed = observe(networks, machine)
    except NotWritten as error:
        raise NoAdvice(str(error)) from error
    candidates = candidates_of(observed.uses, machine)
    lacking = with_others(candidates, networks, machine)
    refused = tuple(dict.fromkeys((*observed.refused, *lacking.refused)))
    return InstructionProposal(machine, (*candidates, *lacking.candidates), refused)


def specialise_machine(
    asked: Question,
    jobs: int | None = None,
    done: Done = lambda finished, asked: None,
    tell: Tell = lambda line: None,
    keep: Path | None = None,
    dask: str | None = None,
) -> Specialised:
    """Choose instructions, and find out what they are worth; with `dask`, by the workers of that scheduler.

    With `keep`, a folder, trials are kept there, and the same question goes on where it stopped. Deterministic,
    whatever the number of jobs. Raises NoAdvice where a network fails on the machine as it is or a figure of the
    objective is not known, IsaError for a faulty file of instructions, CompileError and PriceError.
    """
    proposal, machine, objective = propose(asked.networks, asked.machine), asked.machine, asked.objective
    given = [] if asked.given is None else given_candidates(asked.given, machine)
    candidates = [*given, *not_given(proposal.candidates, given)]
    make = trial_maker(keep)
    tell(f"{len(candidates)} candidates; pricing and compiling for {machine.name} as it is")
    base = make(asked.bench, None)
    _require_figures(base, machine, objective)
    assert base.figures is not None
    budget_kge = asked.budget * base.figures.kge

    def told(trial: Trial) -> None:
        tell(trial_line(base, trial))

    processes = jobs or os.cpu_count() or 1

    def trials_with(bench: Bench) -> Trials:
        return Trials(bench, processes, done, told, make, None if dask is None else _cluster(dask, bench, keep))

    with trials_with(asked.bench) as trials:
        tried = try_alone(candidates, machine, base, trials, budget_kge, objective)
        choice = choose(tried, machine, base, trials, budget_kge, objective)
        chosen = choice.change
        found = verdicts(given, tried, base, trials, objective) if given else ()
        control = _control(machine, base, _mm2(asked, base, choice), trials, objective) if asked.with_control else None
    going = None
    if asked.with_removals:  # what can go is said of area and cycles alone
        with trials_with(replace(asked.bench, with_clock=False)) as trials:
            going = removals(machine, choice.trial, chosen, trials)
    pairs = _held_out(asked, chosen, make, tell) if chosen is not None else ()
    clocks = _clocks(machine, chosen, tell) if asked.with_clock and chosen is not None else None
    predicted = predictions(choice.candidates, base, choice.trial) if chosen else ()
    return Specialised(
        proposal, base, tuple(tried), choice, objective, budget_kge, pairs, control, clocks, going, found, predicted
    )


def _cluster(address: str, bench: Bench, keep: Path | None) -> Elsewhere:
    from tilewright.codesign.advise.on_cluster import OnCluster

    return OnCluster(address, bench, keep)


def _require_figures(base: Trial, machine: Machine, objective: Objective) -> None:
    for failed in base.failures:
        raise NoAdvice(f"{failed.network} on {machine.name} fails in the stage {failed.stage}: {failed.reason}")
    try:
        objective.saved(base, base)
    except NoFigure as error:
        raise NoAdvice(f"objective {objective.goal}: {error}") from error


def _held_out(asked: Question, chosen: Change, make: Make, tell: Tell) -> tuple[tuple[Trial, Trial], ...]:
    pairs = []
    for network in asked.held_out:
        alone = Bench(asked.machine, (network,), asked.effort, with_price=True)
        pairs.append((make(alone, None), make(alone, chosen)))
        tell(f"held out, {network.name}: {trial_line(pairs[-1][0], pairs[-1][1])}")
    return tuple(pairs)


def _clocks(machine: Machine, chosen: Change, tell: Tell) -> Clocks:
    """Of the machine as it is and with what was chosen: each is synthesised for speed. Raises PriceError."""
    tell("the clock with the instructions, and without")
    process = load_process()
    before, after = (known_clock(each, process) for each in (machine, chosen.apply(machine)))
    return Clocks(before.ns, after.ns, _limit(before), _limit(after))


def _limit(clock: Clock) -> str:
    unit = clock.units[0]
    return f"{unit.unit}: {unit.statement}" if unit.statement else unit.unit


def _mm2(asked: Question, base: Trial, choice: Choice) -> float:
    """The area that the chosen instructions add; where there are none, all that they might have added."""
    assert base.figures is not None and choice.trial.figures is not None
    if not choice.chosen:
        return asked.budget * base.figures.logic_mm2
    return choice.trial.figures.area_mm2 - base.figures.area_mm2


def _control(machine: Machine, base: Trial, mm2: float, trials: Trials, objective: Objective) -> Control:
    """What else no more area buys: every key a step further, and a second engine of each kind."""
    more = [each for each in steps(machine) if each.way in (Way.UP, Way.CHOICE)]
    affordable = [change for change in (*more, *engines_more(machine)) if _costs_at_most(change, machine, base, mm2)]
    found = [trial for trial in trials.run(affordable) if runs_alike(base, trial)]
    found.sort(key=lambda trial: -objective.saved(base, trial))
    gaining = [trial.change for trial in found if trial.change is not None and objective.saved(base, trial) > 0]
    joined = _joined(gaining, lambda change: _costs_at_most(change, machine, base, mm2))
    together = [trial for trial in trials.run(joined) if runs_alike(base, trial)]
    best = max((*found, *together), key=lambda trial: objective.saved(base, trial), default=None)
    return Control(best, len(affordable), len(joined), mm2)


def _joined(gaining: Sequence[Change], is_affordable: Callable[[Change], bool]) -> list[Change]:
    """Changes that gain alone, joined one after the other, the best first, as long as the area lasts."""
    found: list[Change] = []
    now: Change | None = gaining[0] if gaining else None
    for other in gaining[1:]:
        assert now is not None
        both = now.beside(other)
        if is_affordable(both):
            now = both
            found.append(both)
    return found


def _costs_at_most(change: Change, machine: Machine, base: Trial, mm2: float) -> bool:
    assert base.figures is not None
    try:
        priced = price_of(change.apply(machine), machine, with_clock=False)
    except IsaError:
        return False
    return priced.figures.area_mm2 - base.figures.area_mm2 <= mm2
