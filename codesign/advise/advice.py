"""What the trials of a machine's changes say: what buys most, where a gain ends, and what can go.

Tried first are changes of what bounds most cycles, and before the others those that add something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.codesign.advise.changes import (
    Change,
    Way,
    each_instruction,
    next_step,
    overlays,
    steps,
    without_instructions,
)
from tilewright.codesign.advise.effects import (
    WORTH,
    Effect,
    can_go,
    effect,
    host_nodes_added,
    name_of,
    ran,
    runs,
    runs_alike,
    share_saved,
    trial_line,
)
from tilewright.codesign.advise.engines import engines_fewer, engines_more
from tilewright.codesign.advise.kept_trials import trial_maker
from tilewright.codesign.advise.trials import Bench, Done, LayerCycles, NoAdvice, Trial, Trials
from tilewright.codesign.advise.worth import Worth, worth
from tilewright.codesign.points.network import Network
from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.laid_over import INSTRUCTIONS
from tilewright.isa.machine.machine import Machine

FOLLOWED = 4
"""So many of the steps that gain most are followed until they gain no more."""

MOST_STEPS = 4
"""A step is followed at most so far."""


@dataclass(frozen=True)
class Saturation:
    """Beyond a value of a key nothing gains, because of what bounds the layers there."""

    key: str
    way: Way
    value: int
    bound: str
    bound_layers: int
    all_layers: int

    def __str__(self) -> str:
        return (
            f"{self.key}: {'beyond' if self.way is Way.UP else 'below'} {self.value:,} nothing gains; "
            f"there {self.bound_layers} of {self.all_layers} layers are {self.bound} bound"
        )


@dataclass(frozen=True)
class Advice:
    """The answer; every trial behind it is in `trials`, the machine as it is first."""

    machine: str
    networks: tuple[str, ...]
    gains: tuple[Effect, ...]  # best first
    ends: tuple[Saturation, ...]
    removable: tuple[Effect, ...]  # what costs area and buys nothing: most area first
    together: Effect | None  # all of these at once
    not_together: str  # why there is no such machine or program; empty if there is, or nothing to try
    unused: tuple[str, ...]  # instructions that no program has
    fuller: tuple[Effect, ...]  # changes with which fewer nodes run on the host
    refused: tuple[tuple[str, str], ...]  # changes that give no machine or no program, with the reason
    instructions: tuple[Worth, ...]  # of those that were asked for, in the machine's order; several at once come last
    trials: tuple[Trial, ...]

    def __repr__(self) -> str:
        return f"<Advice for {self.machine}: {len(self.gains)} changes gain, {len(self.removable)} things can go>"

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "networks": list(self.networks),
            "gains": [effect.as_json() for effect in self.gains],
            "ends": [{**asdict(end), "text": str(end)} for end in self.ends],
            "removable": [effect.as_json() for effect in self.removable],
            "together": None if self.together is None else self.together.as_json(),
            "not_together": self.not_together,
            "unused": list(self.unused),
            "fuller": [effect.as_json() for effect in self.fuller],
            "refused": [{"change": name, "reason": reason} for name, reason in self.refused],
            "instructions": [of.as_json() for of in self.instructions],
            "trials": [trial.as_json() for trial in self.trials],
        }


def advise_machine(
    networks: Sequence[Network],
    machine: Machine,
    isa: str | Path | None,
    given: Sequence[str | Path] = (),
    only: Sequence[str] = (),
    effort: int = 1,
    with_price: bool = True,
    jobs: int | None = None,
    done: Done = lambda finished, asked: None,
    against: Machine | None = None,
    tell: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
) -> Advice:
    """Try every change of a machine with the networks, the most promising first, and `tell` each as it is found.

    With `keep`, a folder of the cache, trials are taken from there, and kept there for the next time. `isa` names the
    machine's file, whose own overlay is tried off.

    With `only`, just the keys that begin with one of these, and the given overlays; the key of an instruction takes it
    away. `against` names so the instructions that this other machine does not have. Deterministic, whatever the number
    of jobs. Raises NoAdvice, PriceError, and IsaError for a faulty overlay.
    """
    only = (*only, *(_added(machine, against) if against is not None else ()))
    of_keys = [*steps(machine), *engines_more(machine), *engines_fewer(machine)]
    wanted = _wanted([*of_keys, *each_instruction(machine)], only) if only else of_keys
    away = [change for change in wanted if _is_below(change.key, INSTRUCTIONS)]
    changes = [*(change for change in wanted if change not in away), *overlays(machine, isa, given, not only)]
    bench = Bench(machine, tuple(networks), effort, with_price)
    make = trial_maker(keep)
    base = make(bench, None)  # the others' price follows from this one's
    with Trials(bench, jobs or os.cpu_count() or 1, done, lambda trial: tell(trial_line(base, trial)), make) as trials:
        for failed in base.failures:
            raise NoAdvice(f"{failed.network} on {machine.name} fails in the stage {failed.stage}: {failed.reason}")
        unused = tuple(name for name in machine.formats if name not in base.used)
        tried = [*changes, *([without_instructions(unused)] if unused and not only else [])]
        found = trials.run(tried, most_promising_first(tried, base))
        followed = _follow(trials, base, found)
        able = [trial for trial in found if can_go(base, trial)]
        both = trials.run([_all(able)]) if len(able) > 1 else []
        without = trials.run(away)
        without += trials.run([_all(without)]) if len(without) > 1 else []
    return _advice(base, found, followed, able, both, without, unused)


def _added(machine: Machine, against: Machine) -> list[str]:
    """The keys of the instructions that the machine has beyond another. Raises NoAdvice if there are none."""
    added = [f"{INSTRUCTIONS}.{name}" for name in machine.formats if name not in against.formats]
    if not added:
        raise NoAdvice(f"{machine.name} has no instruction that {against.name} lacks: there is nothing to take away")
    return added


def _wanted(changes: Sequence[Change], only: Sequence[str]) -> list[Change]:
    """The changes of these keys, and of those below them. Raises NoAdvice for an unknown one."""
    keys = list(dict.fromkeys(change.key for change in changes if change.key))
    for wanted in only:
        if not any(_is_below(key, wanted) for key in keys):
            there = [*(key for key in keys if not _is_below(key, INSTRUCTIONS)), INSTRUCTIONS]
            raise NoAdvice(f"no key to step is {wanted!r} or below it{did_you_mean(wanted, keys)}: {', '.join(there)}")
    return [change for change in changes if any(_is_below(change.key, wanted) for wanted in only)]


def _is_below(key: str, wanted: str) -> bool:
    return f"{key}.".startswith(f"{wanted}.")


def _follow(trials: Trials, base: Trial, found: Sequence[Trial]) -> list[list[Trial]]:
    """The steps that gain most, each until it gains no more, is refused, or has gone far enough."""
    gains = sorted(
        (trial for trial in found if runs_alike(base, trial) and share_saved(base, trial) >= WORTH and _is_step(trial)),
        key=lambda trial: (-share_saved(base, trial), name_of(trial)),
    )
    chains = [[trial] for trial in gains[:FOLLOWED]]
    growing = chains
    for _ in range(MOST_STEPS):
        further = [(chain, step) for chain in growing if (step := _further(chain[-1])) is not None]
        growing = []
        for (chain, _), trial in zip(further, trials.run([step for _, step in further]), strict=True):
            before = chain[-1]
            chain.append(trial)
            if runs_alike(base, trial) and share_saved(before, trial) >= WORTH:
                growing.append(chain)
        if not growing:
            break
    return chains


def _is_step(trial: Trial) -> bool:
    return trial.change is not None and trial.change.kind is not None


def _further(trial: Trial) -> Change | None:
    assert trial.change is not None
    return next_step(trial.change)


def _all(trials: Sequence[Trial]) -> Change:
    """All changes at once."""
    first, *others = (trial.change for trial in trials if trial.change is not None)
    for other in others:
        first = first.beside(other)
    return Change("all of these", Way.WITHOUT, first.over)


def _ends(chains: Sequence[Sequence[Trial]]) -> tuple[Saturation, ...]:
    """Of the chains whose last step gained nothing."""
    found = []
    for chain in chains:
        if len(chain) < 2 or not runs(chain[-1]) or share_saved(chain[-2], chain[-1]) >= WORTH:
            continue
        last = chain[-2]
        assert last.change is not None
        value: Any = last.change.over
        for key in last.change.key.split("."):
            value = value[key]
        layers = [layer for of in last.layers.values() for layer in of.values()]
        bound, count = _most_bound(layers)
        found.append(Saturation(last.change.key, last.change.way, value, bound, count, len(layers)))
    return tuple(found)


def _most_bound(layers: Sequence[LayerCycles]) -> tuple[str, int]:
    counts: dict[str, int] = {}
    for layer in layers:
        counts[layer.bound] = counts.get(layer.bound, 0) + 1
    bound = max(counts, key=lambda name: (counts[name], name))
    return bound, counts[bound]


def _advice(
    base: Trial,
    found: Sequence[Trial],
    followed: Sequence[Sequence[Trial]],
    able: Sequence[Trial],
    both: Sequence[Trial],
    without: Sequence[Trial],
    unused: tuple[str, ...],
) -> Advice:
    alike = [trial for trial in found if runs_alike(base, trial)]
    gains = [effect(base, trial) for trial in alike if share_saved(base, trial) >= WORTH]
    fuller = [effect(base, trial) for trial in found if runs(trial) and host_nodes_added(base, trial) < 0]
    going = sorted((effect(base, trial) for trial in able), key=lambda of: (of.mm2_added or 0.0, of.name))
    outcome = ran(base)[0]
    return Advice(
        machine=outcome.machine,
        networks=tuple(of.network for of in base.outcomes),
        gains=tuple(sorted(gains, key=lambda of: of.order)),
        ends=_ends(followed),
        removable=tuple(going),
        together=effect(base, both[0]) if both and runs_alike(base, both[0]) else None,
        not_together="" if not both or runs_alike(base, both[0]) else _why_not(base, both[0]),
        unused=unused,
        fuller=tuple(fuller),
        refused=tuple((name_of(trial), _why_not(base, trial)) for trial in found if not _is_comparable(base, trial)),
        instructions=tuple(worth(base, trial) for trial in without),
        trials=(base, *found, *(trial for chain in followed for trial in chain[1:]), *both, *without),
    )


def _is_comparable(base: Trial, trial: Trial) -> bool:
    return runs(trial) and host_nodes_added(base, trial) <= 0


def _why_not(base: Trial, trial: Trial) -> str:
    if trial.why_not:
        return trial.why_not
    for failed in trial.failures:
        return f"{failed.network} fails in the stage {failed.stage}: {failed.reason}"
    return f"leaves {host_nodes_added(base, trial)} more nodes to the host"


HELPS: Mapping[str, tuple[str, ...]] = {
    "array": ("compute",),
    "lanes": ("vector",),
    "dram": ("dram",),
    "memories": ("dram",),
    "fetch_beats": ("dram",),
    "engines": ("vector", "dram"),
}
"""By the first part of a key: what bounds the layers that a step of it may help."""


def most_promising_first(changes: Sequence[Change], base: Trial) -> list[int]:
    """The places of changes in the order in which they are best tried; of equals in the order that they have."""
    bounds: dict[str, int] = {}
    for layers in base.layers.values():
        for layer in layers.values():
            bounds[layer.bound] = bounds.get(layer.bound, 0) + layer.cycles

    def promise(place: int) -> tuple[bool, int]:
        change = changes[place]
        adds = change.way in (Way.UP, Way.ON, Way.CHOICE)
        helped = {bound for name in change.over for bound in HELPS.get(name, ())}
        return not adds, -sum(bounds.get(bound, 0) for bound in helped)

    return sorted(range(len(changes)), key=promise)
