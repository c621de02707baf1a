"""From a machine to one that does what is asked: single steps of its sizes, each compiled for, until none is better."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import yaml

from tilewright.codesign.advise.changes import Change, Way, steps
from tilewright.codesign.advise.trials import Bench, Trial, Trials
from tilewright.codesign.bounds.least_cycles import products_a_cycle
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.require.question import RequiredLimits
from tilewright.isa.key_kinds import SIZE
from tilewright.isa.machine.machine import Machine

STORED = re.compile(r"dram\.bus_bytes|memories\.\w+\.(kib|depth)")
"""Keys that step beside the sizes of arrays, lanes and words."""

MACS_A_KIB = 10
"""Where machines are not priced, a KiB counts as so many multipliers: about what they take of area in `tiny8`."""

LEAST_HARM = 0.01
"""A step that makes the rest worse by less than 1 % counts as one that does so by 1 %."""


@dataclass(frozen=True, slots=True)
class AvailableSizes:
    """What a machine has of what is asked for."""

    macs: int  # products a cycle
    bus_bytes: int  # read in a cycle
    kib: float  # of its memories


def sizes(machine: Machine) -> AvailableSizes:
    kib = sum(memory.bytes for memory in machine.memories.values()) / 1024
    return AvailableSizes(products_a_cycle(machine), machine.read_bytes, kib)


def cycles_of(trial: Trial) -> int | None:
    """Of a run of all networks; None where one of them does not run."""
    found = [of.cycles / of.images for of in trial.outcomes if isinstance(of, NetworkFigures)]
    return math.ceil(sum(found)) if found and len(found) == len(trial.outcomes) else None


def host_nodes_of(trial: Trial) -> int:
    return sum(of.host_nodes for of in trial.outcomes if isinstance(of, NetworkFigures))


class SizeWalk:
    """Steps of one machine's sizes. A machine that leaves more to the host than the first one is none of them."""

    def __init__(self, bench: Bench, trials: Trials, base: Trial, asked: RequiredLimits) -> None:
        self._bench = bench
        self._trials = trials
        self._base = base
        self._asked = asked
        self.tried = 1
        self._sizes: dict[str, float] = {}  # by the name of a change, where machines are not priced
        self._plain = yaml.safe_load(bench.machine.text)

    def end(self) -> Trial:
        """The machine that does what is asked, from which no single step gives a better one; or the nearest miss."""
        found = self._towards(self._base)
        if self.shortfall(found) > 0:
            return found
        return self._smaller(found) if self._asked.cycles is not None else self._faster(found)

    def shortfall(self, trial: Trial) -> float:
        """How far a machine is from what is asked: the sum of the logarithms of what is exceeded; 0 if nothing is."""
        cycles = cycles_of(trial)
        if cycles is None or host_nodes_of(trial) > host_nodes_of(self._base):
            return math.inf
        pairs: list[tuple[float | None, float | None]] = [(cycles, self._asked.cycles)]
        if trial.figures is not None:
            pairs += [(trial.figures.area_mm2, self._asked.area_mm2), (trial.figures.logic_mm2, self._asked.logic_mm2)]
        over = (math.log(value / limit) for value, limit in pairs if value is not None and limit is not None)
        return sum(max(0.0, each) for each in over)

    def size(self, trial: Trial) -> float:
        """The area; where machines are not priced, what stands for it."""
        if trial.figures is not None:
            return trial.figures.area_mm2
        if _name(trial) not in self._sizes:
            own = sizes(self.machine(trial))
            self._sizes[_name(trial)] = own.macs / MACS_A_KIB + own.kib
        return self._sizes[_name(trial)]

    def machine(self, trial: Trial) -> Machine:
        """Raises IsaError where there is none."""
        return self._bench.machine if trial.change is None else trial.change.apply(self._bench.machine)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _towards(self, current: Trial) -> Trial:
        """Take the step that helps most for what it costs, until all is met or none helps."""
        while (short := self.shortfall(current)) > 0:
            found = self._run(current, self._ways(current))
            better = [trial for trial in found if self.shortfall(trial) < short - 1e-9]
            if not better:
                break
            current = max(better, key=lambda trial: (self._help(current, trial), -self.size(trial), _name(trial)))
        return current

    def _ways(self, trial: Trial) -> tuple[Way, ...]:
        """Up where the machine is too slow, down where it is too large."""
        cycles, asked = cycles_of(trial), self._asked.cycles
        is_slow = cycles is not None and asked is not None and cycles > asked
        is_large = math.isfinite(self.shortfall(trial)) and self.shortfall(trial) > (
            math.log(cycles / asked) + 1e-9 if is_slow and cycles and asked else 0.0
        )
        return (*((Way.UP,) if is_slow else ()), *((Way.DOWN,) if is_large else ()))

    def _help(self, before: Trial, after: Trial) -> float:
        """What a step gains of what is missing, by what it makes worse of cycles and size, in logarithms."""
        gained = self.shortfall(before) - self.shortfall(after)
        old, new = cycles_of(before), cycles_of(after)
        assert old and new
        changed = math.log(new / old) + math.log(self.size(after) / self.size(before))
        return gained / max(LEAST_HARM, changed + gained)

    def _smaller(self, current: Trial) -> Trial:
        """Step down while all is met, what saves most area first. A key that was too small once is not tried again."""
        too_small: set[str] = set()
        while True:
            found = self._run(current, (Way.DOWN,), too_small)
            met = [trial for trial in found if self.shortfall(trial) == 0 and self.size(trial) < self.size(current)]
            too_small |= {_step(trial) for trial in found if trial not in met and not trial.why_not}
            if not met:
                return current
            met += [trial for trial in self._at_once(current, met) if self.shortfall(trial) == 0]
            current = min(met, key=lambda trial: (self.size(trial), _name(trial)))

    def _at_once(self, current: Trial, met: Sequence[Trial]) -> list[Trial]:
        """All steps of single keys together: where that does, too, it saves many trials."""
        taken = {_step(trial) for trial in met}
        single = [step for step in steps(self.machine(current)) if step.way is Way.DOWN and step.key in taken]
        if len(single) < 2:
            return []
        over = current.change or Change("", Way.DOWN, {})
        for step in single:
            over = over.beside(step)
        return self._counted(self._trials.run([self._named(over, Change("", Way.DOWN, {}))]))

    def _faster(self, current: Trial) -> Trial:
        """Step up while all is met and cycles are saved; of equally fast machines, the smaller one."""
        while True:
            found = [trial for trial in self._run(current, (Way.UP, Way.DOWN)) if self.shortfall(trial) == 0]
            best = min([current, *found], key=lambda trial: (cycles_of(trial), self.size(trial), _name(trial)))
            if best is current:
                return current
            current = best

    def _run(self, current: Trial, ways: Sequence[Way], without: AbstractSet[str] = frozenset()) -> list[Trial]:
        """A trial of each step from a machine that gives one."""
        changes = [change for change, key in self._steps(current, ways) if key not in without]
        return self._counted(self._trials.run(changes))

    def _counted(self, trials: list[Trial]) -> list[Trial]:
        self.tried += sum(not trial.why_not for trial in trials)
        return trials

    def _steps(self, current: Trial, ways: Sequence[Way]) -> Iterator[tuple[Change, str]]:
        """Each with its key: of several sizes at once, their names."""
        for step in steps(self.machine(current)):
            if step.way not in ways or not (step.kind is SIZE or not step.key or STORED.fullmatch(step.key)):
                continue
            over = step if current.change is None else current.change.beside(step)
            change = self._named(over, step)
            yield change, change.key

    def _named(self, over: Change, step: Change) -> Change:
        """All that is changed of the machine, as the step that was taken last."""
        changed = _without_same(over.over, self._plain)
        return Change(", ".join(_flat(changed, "")), step.way, changed, step.key or step.name, step.kind)


def settings(change: Change | None) -> tuple[str, ...]:
    """What `--set` takes for a change: `array.rows=16`; nothing for the machine as it is."""
    return () if change is None else tuple(_flat(change.over, ""))


def _without_same(over: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """What a change says other than the machine's file: steps up and down again say nothing."""
    found = {}
    for key, value in over.items():
        if isinstance(value, Mapping):
            value = _without_same(value, machine[key])
            if value:
                found[key] = value
        elif machine.get(key) != value:
            found[key] = value
    return found


def _flat(over: object, above: str) -> Iterator[str]:
    if not isinstance(over, dict):
        yield f"{above}={over}"
        return
    for key, value in over.items():
        yield from _flat(value, f"{above}.{key}" if above else key)


def _step(trial: Trial) -> str:
    return trial.change.key if trial.change is not None else ""


def _name(trial: Trial) -> str:
    return trial.change.name if trial.change is not None else ""
