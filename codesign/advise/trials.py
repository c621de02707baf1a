"""Changes tried: each changed machine priced, and every network compiled for it and simulated, on all cores."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from threading import Thread
from typing import Any, Protocol

from tilewright.codesign.advise.changes import Change
from tilewright.codesign.points.evaluate import Failure, Outcome, figures, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.places import Places, Trips, Values, held_values, longest_trips, places_of
from tilewright.codesign.points.priced import MachineFigures, price_of
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.simulator.run_profile import LayerProfile

Done = Callable[[int, int], None]
"""Called with how many machines are tried, and how many there are so far."""


STOPPED = "a process was stopped from outside, perhaps for lack of memory: use one job"


class NoAdvice(Exception):
    """There is nothing to compare changes with, or nothing to try, or the trials were stopped from outside."""


@dataclass(frozen=True, slots=True)
class LayerCycles:
    """What a layer takes, and what bounds it."""

    cycles: int
    bound: str
    bound_cycles: Mapping[str, int] = field(default_factory=dict)  # what each resource alone takes


@dataclass(frozen=True)
class Trial:
    """A changed machine with all networks; `change` is None for the machine as it is.

    `why_not` says why there is no such machine. `layers` are by network and by name; `places` is what each
    instruction of a program streams, by network, mnemonic and layer.
    """

    change: Change | None
    figures: MachineFigures | None
    outcomes: tuple[Outcome, ...]
    layers: Mapping[str, Mapping[str, LayerCycles]]
    why_not: str = ""
    places: Mapping[str, Places] = field(default_factory=dict)
    longest: Trips = field(default_factory=dict)  # of all networks
    values: Values = field(default_factory=dict)  # of immediates, in all networks

    @property
    def used(self) -> frozenset[str]:
        """The instructions in any emitted program."""
        return frozenset(mnemonic for of in self.places.values() for mnemonic in of)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Failure))

    def as_json(self) -> dict[str, Any]:
        return {
            "change": None if self.change is None else self.change.name,
            "over": {} if self.change is None else self.change.over,
            "machine": None if self.figures is None else {**self.figures.as_json(), "area_mm2": self.figures.area_mm2},
            "points": [outcome.as_json() for outcome in self.outcomes],
            "layers": {
                network: {name: asdict(layer) for name, layer in layers.items()}
                for network, layers in self.layers.items()
            },
            "places": self.places,
            "why_not": self.why_not,
        }


@dataclass(frozen=True)
class Bench:
    """What all trials share: the machine, the networks, and whether machines are priced, their clock included."""

    machine: Machine
    networks: tuple[Network, ...]
    effort: int
    with_price: bool
    with_clock: bool = False

    def trial(self, change: Change | None) -> Trial:
        """Raises PriceError where the machine cannot be priced."""
        try:
            machine = self.machine if change is None else change.apply(self.machine)
        except IsaError as error:
            return Trial(change, None, (), {}, str(error).splitlines()[0])
        like = None if change is None else self.machine
        priced = price_of(machine, like, self.with_clock) if self.with_price else None
        outcomes: list[Outcome] = []
        layers: dict[str, dict[str, LayerCycles]] = {}
        places: dict[str, Places] = {}
        longest: dict[str, dict[str, int]] = {}
        values: dict[str, dict[str, list[int]]] = {}
        for network in self.networks:
            found = measure(network, machine, self.effort)
            if isinstance(found, Failure):
                outcomes.append(found)
                continue
            outcomes.append(figures(found, None if priced is None else priced.price))
            layers[network.name] = _by_name(found.layers())
            places[network.name] = places_of(found.programs)
            longest_trips(found.programs, longest)
            held_values(found.programs, values)
        known = None if priced is None else priced.figures
        return Trial(change, known, tuple(outcomes), layers, "", places, longest, values)


def _by_name(layers: Sequence[LayerProfile]) -> dict[str, LayerCycles]:
    """Of layers that share a name, the sum."""
    found: dict[str, LayerCycles] = {}
    for layer in layers:
        before = found.get(layer.name)
        cycles = layer.cycles + (before.cycles if before is not None else 0)
        bounds = {str(name): count for name, count in layer.bound_cycles.items()}
        if before is not None:
            bounds = {name: count + before.bound_cycles[name] for name, count in bounds.items()}
        found[layer.name] = LayerCycles(cycles, str(layer.bound), bounds)
    return found


Make = Callable[[Bench, Change | None], Trial]
"""Makes a trial, or knows it."""


class Elsewhere(Protocol):
    """Other machines that make trials."""

    def trials(self, changes: Sequence[Change | None]) -> Iterator[tuple[int, Trial]]:
        """(position, trial) of each change as it is made."""

    def close(self) -> None:
        """Leave them."""


class Trials:
    """Tries changes in `jobs` processes; with one job, in this one. The results are in the order of the changes.

    With `elsewhere`, other machines try them.
    """

    def __init__(
        self,
        bench: Bench,
        jobs: int,
        done: Done,
        tell: Callable[[Trial], None] = lambda trial: None,
        make: Make = lambda bench, change: bench.trial(change),
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Each trial is told as soon as it is there."""
        self._elsewhere = elsewhere
        self._bench = bench
        self._done = done
        self._tell = tell
        self._make = make
        self._finished = self._asked = 0
        context = multiprocessing.get_context("fork")
        self._pool = (
            ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(bench, make))
            if jobs > 1 and elsewhere is None
            else None
        )  # fmt: skip

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *error: object) -> None:
        if self._elsewhere is not None:
            self._elsewhere.close()
        if self._pool is not None:
            self._pool.shutdown(wait=error[0] is None, cancel_futures=True)

    def run(self, changes: Sequence[Change | None], order: Sequence[int] | None = None) -> list[Trial]:
        """A trial for each change, in their order; `order` says in which they are made.

        Raises PriceError, and NoAdvice where a process was stopped.
        """
        self._asked += len(changes)
        order = range(len(changes)) if order is None else order
        found: dict[int, Trial] = {}
        if self._elsewhere is not None:
            for position, trial in self._elsewhere.trials(changes):
                found[position] = self._counted(trial)
            return [found[position] for position in range(len(changes))]
        if self._pool is None:
            for position in order:
                found[position] = self._counted(self._make(self._bench, changes[position]))
            return [found[position] for position in range(len(changes))]
        try:
            waiting: dict[Future[Trial], int] = {
                self._pool.submit(_trial, changes[position]): position for position in order
            }
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    found[waiting.pop(future)] = self._counted(future.result())
        except BrokenProcessPool as error:  # of a result, and of a change that is handed in after it
            raise NoAdvice(STOPPED) from error
        return [found[position] for position in range(len(changes))]

    def _counted(self, trial: Trial) -> Trial:
        self._finished += 1
        self._done(self._finished, self._asked)
        self._tell(trial)
        return trial


_BENCH: list[tuple[Bench, Make]] = []
"""Of a worker: what it tries changes with and how, and what the networks' sessions keep from one to the next."""


def _begin(bench: Bench, make: Make) -> None:
    """In a worker, which leaves an interruption to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    _BENCH[:] = [(bench, make)]


def end_with_parent() -> None:
    """For a thread of a worker: end the process as soon as its parent has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _trial(change: Change | None) -> Trial:
    bench, make = _BENCH[0]
    return make(bench, change)
