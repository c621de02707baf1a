"""Answers the inverse question: what is needed by bound, the shipped machines, and the nearest one by single steps.

What any machine needs at least, whatever the compiler finds, follows from the bounds of the networks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.codesign.advise.kept_trials import trial_maker
from tilewright.codesign.advise.trials import Bench, Done, NoAdvice, Trial, Trials
from tilewright.codesign.bounds.least_cycles import least_cycles
from tilewright.codesign.bounds.needs import Needs, needs_of
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures, price_of
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.process import load_process
from tilewright.codesign.progress import Progress, silent
from tilewright.codesign.require.question import RequiredLimits
from tilewright.codesign.require.walk import AvailableSizes, SizeWalk, cycles_of, host_nodes_of, settings, sizes
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.machine import Machine

TOO_SLOW = "too slow"
"""What a machine misses that takes too many cycles."""


@dataclass(frozen=True)
class JudgedMachine:
    """A machine, and how far it does what is asked: `misses` says what it does not, in words; nothing if it does.

    `settings` are changes of the machine `base`. `cycles` is None where the networks do not run. `figures` are of a
    machine that is priced, by itself and not fitted; of others, `memories_mm2` is a part of the area.
    """

    base: str
    settings: tuple[str, ...]
    machine: Machine
    sizes: AvailableSizes
    cycles: int | None
    rate: float | None  # runs a second
    host_nodes: int
    memories_mm2: float | None
    figures: MachineFigures | None
    misses: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.base}, stepped" if self.settings else self.base

    def as_json(self) -> dict[str, Any]:
        figures = None if self.figures is None else {**self.figures.as_json(), "area_mm2": self.figures.area_mm2}
        own = {"base": self.base, "settings": list(self.settings), **asdict(self.sizes)}
        own |= {"cycles": self.cycles, "runs_per_second": self.rate, "host_nodes": self.host_nodes}
        return {**own, "memories_mm2": self.memories_mm2, "figures": figures, "misses": list(self.misses)}


@dataclass(frozen=True)
class Requirement:
    """The answer: `nearest` was found by steps from one of the shipped machines, of which it may be one itself."""

    asked: RequiredLimits
    networks: tuple[str, ...]
    least: Least
    shipped: tuple[JudgedMachine, ...]  # those that do it first
    nearest: JudgedMachine
    tried: int  # machines that were compiled for

    def __repr__(self) -> str:
        return f"<Requirement: {self.asked}: {' '.join((self.nearest.base, *self.nearest.settings))}>"

    def as_json(self) -> dict[str, Any]:
        return {
            "asked": self.asked.as_json(),
            "networks": list(self.networks),
            "least": self.least.as_json(),
            "nearest": self.nearest.as_json(),
            "shipped": [each.as_json() for each in self.shipped],
            "tried": self.tried,
        }


def require_machine(
    networks: Sequence[Network],
    asked: RequiredLimits,
    bases: Sequence[tuple[str, Machine]],
    effort: int = 1,
    with_price: bool = True,
    jobs: int | None = None,
    done: Done = lambda finished, known: None,
    tell: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
    progress: Progress = silent,
) -> Requirement:
    """The machine nearest to what is asked, from machines by name.

    Every one is compiled for and simulated, unless a bound of the networks says that it is too slow; `tell` is given a
    line about what is begun. With `keep`, a folder of the cache, what was tried is kept. The answer is the same for any
    number of `jobs`. Raises NoAdvice where no machine runs the networks, and PriceError.
    """
    make = trial_maker(keep)
    needs = needs_of_all(networks, arithmetic_of(bases[0][1]).weight)
    judged = _Judge(asked, with_price)
    tell(f"compiling for {len(bases)} machine{'s' * (len(bases) != 1)}")
    shipped, trials = [], {}
    for name, machine in bases:
        if asked.cycles is not None and least_cycles(needs, machine) > asked.cycles and len(bases) > 1:
            shipped.append(judged.too_slow(name, machine, least_cycles(needs, machine)))
            continue
        with progress(f"{', '.join(of.name for of in networks)} on {name}"):
            trials[name] = make(Bench(machine, tuple(networks), effort, False), None)
        shipped.append(judged.of_trial(name, machine, trials[name]))
    start = _start(shipped, trials)
    is_priced = with_price and asked.needs_price  # else only the answer is, since a price takes as long as a program
    if is_priced:
        tell(f"pricing {start.base}, once: a minute or two where it is not known yet")
    bench = Bench(start.machine, tuple(networks), effort, is_priced)
    base = make(bench, None)
    tell(f"stepping from {start.base}")
    with Trials(bench, jobs or os.cpu_count() or 1, done, make=make) as running:
        walk = SizeWalk(bench, running, base, asked)
        end = walk.end()
    if with_price:
        tell("pricing the answer by itself" + (", and its clock" if asked.clock_mhz is not None else ""))
    nearest = judged.verified(start.base, walk.machine(end), end)
    names = tuple(of.name for of in networks)
    found = sorted(shipped, key=_order)
    return Requirement(asked, names, least(needs, asked), tuple(found), nearest, walk.tried + len(trials) - 1)


def _start(shipped: Sequence[JudgedMachine], trials: dict[str, Trial]) -> JudgedMachine:
    """The smallest machine that is fast enough, else the fastest; raises NoAdvice where the networks run on none."""
    able = [found for found in shipped if found.cycles is not None and found.base in trials]
    fewest = min((found.host_nodes for found in able), default=0)
    able = [found for found in able if found.host_nodes == fewest]
    if not able:
        failures = [failed for trial in trials.values() for failed in trial.failures]
        why = [f": {of.network} on {of.machine} fails in the stage {of.stage}: {of.reason}" for of in failures[:1]]
        raise NoAdvice("the networks run on none of the machines" + "".join(why or [": all are too slow by bound"]))
    return min(able, key=_order)


def _order(found: JudgedMachine) -> tuple[bool, float, str]:
    """Those that are fast enough by their size, then the others by their cycles."""
    is_slow = found.cycles is None or TOO_SLOW in found.misses
    by = (found.cycles or float("inf")) if is_slow else (found.memories_mm2 or found.sizes.kib)
    return is_slow, by, found.base


class _Judge:
    """Says of machines what they miss of what is asked."""

    def __init__(self, asked: RequiredLimits, with_price: bool) -> None:
        self._asked = asked
        self._process = load_process() if with_price else None

    def too_slow(self, name: str, machine: Machine, cycles: int) -> JudgedMachine:
        """A machine that is too slow by bound alone."""
        return self._found(name, machine, None, 0, [f"by bound: {cycles:,} cycles or more"], None, None)

    def of_trial(self, name: str, machine: Machine, trial: Trial) -> JudgedMachine:
        """A machine as it is, without its logic: that would take a minute for each."""
        memories, misses = self._memories_mm2(machine), self._too_slow(trial)
        limit = self._asked.area_mm2
        if memories is not None and limit is not None and memories > limit:
            misses.append(f"its memories take {memories:.3g} mm²")
        return self._found(name, machine, cycles_of(trial), host_nodes_of(trial), misses, memories, None)

    def verified(self, name: str, machine: Machine, trial: Trial) -> JudgedMachine:
        """A machine with its own price, and its own clock where one is asked for."""
        misses, asked = self._too_slow(trial), self._asked
        figures = None
        if self._process is not None:
            figures = price_of(machine, None, asked.clock_mhz is not None, self._process).figures
            for value, limit, what in (
                (figures.area_mm2, asked.area_mm2, ""),
                (figures.logic_mm2, asked.logic_mm2, " of logic"),
            ):
                if limit is not None and value > limit:
                    misses.append(f"{value:.3g} mm²{what}")
            if asked.clock_mhz is not None and figures.clock_mhz is not None and figures.clock_mhz < asked.clock_mhz:
                misses.append(f"{figures.clock_mhz:.0f} MHz in {self._process.name}")
        found = self._found(name, machine, cycles_of(trial), host_nodes_of(trial), misses, None, figures)
        return replace(found, settings=settings(trial.change))

    def _too_slow(self, trial: Trial) -> list[str]:
        for failed in trial.failures:
            return [f"{failed.network} does not run: {failed.reason}"]
        cycles, asked = cycles_of(trial), self._asked.cycles
        if cycles is not None and asked is not None and cycles > asked:
            return [TOO_SLOW]
        return []

    def _memories_mm2(self, machine: Machine) -> float | None:
        if self._process is None:
            return None
        return sum(memory_price(machine, of, self._process).area_um2 for of in machine.memories.values()) / 1e6

    def _found(
        self,
        name: str,
        machine: Machine,
        cycles: int | None,
        host_nodes: int,
        misses: Sequence[str],
        memories: float | None,
        figures: MachineFigures | None,
    ) -> JudgedMachine:
        rate = None if cycles is None else self._asked.rate(cycles)
        own = sizes(machine)
        return JudgedMachine(name, (), machine, own, cycles, rate, host_nodes, memories, figures, tuple(misses))


@dataclass(frozen=True, slots=True)
class Least:
    """`macs` and `bus_bytes` are of a cycle; None where no rate is asked, so that nothing follows."""

    products: int  # of a run: those that no program leaves out
    weight_bytes: int  # that each run reads
    macs: int | None
    bus_bytes: int | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def needs_of_all(networks: Sequence[Network], weight: IntegerType) -> Needs:
    """Of one run of each network, with weights of a type."""
    found = [needs_of(network, weight) for network in networks]
    return Needs(sum(of.products for of in found), sum(of.weight_bytes for of in found))


def least(needs: Needs, asked: RequiredLimits) -> Least:
    """1,000 products in 300 cycles are 4 a cycle at least: 3 would take 334 cycles."""
    cycles = asked.cycles
    if cycles is None:
        return Least(needs.products, needs.weight_bytes, None, None)
    return Least(needs.products, needs.weight_bytes, -(-needs.products // cycles), -(-needs.weight_bytes // cycles))
