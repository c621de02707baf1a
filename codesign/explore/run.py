"""Runs a study: each point loaded, priced, compiled and measured once, by workers; every result is kept at once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.codesign.bounds.least_cycles import least_cycles
from tilewright.codesign.bounds.needs import Needs, needs_of
from tilewright.codesign.explore.front import dominates, losses
from tilewright.codesign.explore.lines import Line, key_of
from tilewright.codesign.explore.pool import LIMIT, STALLED, Pool, Serve, TaskLimits, Workers
from tilewright.codesign.explore.search import ALL, BASELINE, bounded, search_named
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.explore.specialised import with_instructions
from tilewright.codesign.explore.store import Store, ended_at, put_space
from tilewright.codesign.explore.study import space_line
from tilewright.codesign.explore.totals import all_figures, best_possible, machine_figures
from tilewright.codesign.explore.worker import StudyTask, serve
from tilewright.codesign.points.evaluate import NetworkFigures, outcome_from_json
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.version import version
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.machine import Machine

MOST_HELD = 8
"""Points that a worker measures before their machines have a price."""

Report = Callable[[int, int, str], None]
"""Given points that are done, points in all that are known of (none at first), and what is begun or just finished."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How to run: the search and its budget of points, the part of all points, and the workers."""

    search: str = "all"
    budget: int | None = None
    shard: tuple[int, int] = (1, 1)
    workers: int = 1
    limits: TaskLimits = TaskLimits()
    retries: bool = False  # computes again what an earlier run stopped at a limit


MakePool = Callable[[Space, Choices, Serve], Workers]


def processes(space: Space, choices: Choices, serve: Serve) -> Workers:
    """Workers on this machine."""
    return Pool(space, choices.workers, choices.limits, serve)


@dataclass
class _Job:
    """A point under way, with what is known of it."""

    point: Point
    label: str
    machine: Machine
    key: str
    price: MachineFigures | None = None
    early: set[str] = field(default_factory=set)  # networks that its worker measured before there was a price
    networks: dict[str, NetworkFigures] = field(default_factory=dict)


def run(
    space: Space,
    folder: Path,
    choices: Choices = Choices(),  # noqa: B008
    reuse: Iterable[Path] = (),
    report: Report = lambda done, total, text: None,
    make_pool: MakePool = processes,
    serve: Serve = serve,
) -> list[str]:
    """Run a study to its end, from where it stands; what is to be said of its file.

    Raises StudyError, and KeyboardInterrupt with everything kept that was finished.
    """
    search_named(choices.search).batches(space, choices.budget).close()  # it is known, and all that it needs is here
    bounded(space, choices.budget)
    networks = {each.name: each.read() for each in space.networks}
    with Store(folder) as store:
        put_space(folder, space.text)
        store.add(space_line(space, {name: network.hash for name, network in networks.items()}))
        for other in reuse:
            store.take_over(other)
        space = with_instructions(space, folder, lambda line: report(0, 0, f"specialise: {line}"))
        report(0, 0, "starting the workers")
        with make_pool(space, choices, serve) as pool:
            _StudyRun(space, store, pool, networks, report, choices).search()
        return store.notes


def _doing(job: _Job, task: StudyTask) -> str:
    """What a worker begins with, in a line."""
    if task.network is None:
        return f"pricing {job.label}, once: a minute or two where no machine of its structure is priced yet"
    return f"{task.network} on {job.label}"


class _StudyRun:
    def __init__(
        self, space: Space, store: Store, pool: Workers, networks: dict[str, Network], report: Report, choices: Choices
    ) -> None:
        self.space = space
        self.store = store
        self.pool = pool
        self.networks = networks
        self.report = report
        self.choices = choices
        self.stopped = ended_at(store, STALLED, *([LIMIT] if choices.retries else []))  # until they are computed again
        self.needs: dict[tuple[str, IntegerType], Needs] = {}  # by network and type of weights, as they are asked for
        self.finished: dict[Point, tuple[float, ...]] = {}
        self.beating: dict[str, tuple[float, ...]] = {}  # by label, a search's front of those with no node on the host
        self.is_dropping = True
        self.held: defaultdict[int, deque[_Job]] = defaultdict(deque)  # by worker, measured early
        self.pricing: set[Point] = set()  # structures whose first price, to which others are fitted, is being found
        self.known: set[Point] = set()  # those for which it was found
        self.done = 0
        self.total = 0

    def search(self) -> None:
        """Look at the points of a search; of one that learns, then at as many that are spread, to compare it with."""
        choices = self.choices
        looked = self._searched(choices.search, choices.budget, choices.shard)
        if search_named(choices.search).is_learning:
            self._searched(BASELINE, len(looked), (1, 1))

    def _searched(self, name: str, budget: int | None, shard: tuple[int, int]) -> list[str]:
        """The labels of the points that a search looked at, which are kept if there may be others.

        A search's points are dropped for its own points alone, so that it is what it would be by itself.
        """
        search = search_named(name)
        batches = search.batches(self.space, budget)
        self.beating, self.is_dropping = {}, not search.needs_all
        part, parts = shard
        looked: list[str] = []
        known: dict[Point, tuple[float, ...]] = {}
        with suppress(StopIteration):
            batch = next(batches)
            while True:
                own = batch[part - 1 :: parts]
                self._batch(own)
                looked += map(self.space.label, own)
                known |= {point: self.finished[point] for point in own if point in self.finished}
                batch = batches.send(known)
        if name == ALL:
            return looked
        line = {"kind": "search", "name": name, "shard": f"{part}/{parts}", "version": version(), "labels": looked}
        self.store.add(line)
        return looked

    def _batch(self, points: list[Point]) -> None:
        waiting = deque(points)
        self.total += len(points)
        jobs: dict[int, _Job] = {}
        while waiting or jobs or any(self.held.values()):
            for number in list(self.pool.idle()):
                self._give(number, jobs, waiting)
            for number, (task, value) in self.pool.answers():
                self._keep(jobs[number], task, value)

    def _give(self, number: int, jobs: dict[int, _Job], waiting: deque[Point]) -> None:
        """Give an idle worker the next task of its point, or of the next point that has one."""
        while (job := jobs.pop(number, None) or self._taken(number, waiting)) is not None:
            waits = self._waits(job)
            task = self._early(job) if waits else self._next(job)
            if task is not None:
                jobs[number] = job
                self.report(self.done, self.total, _doing(job, task))
                return self.pool.give(number, task)
            if waits:
                self.held[number].append(job)
            else:
                self._ended(job.label)

    def _taken(self, number: int, waiting: deque[Point]) -> _Job | None:
        """A point for an idle worker: one that it holds and that may go on, or the next."""
        held = self.held[number]
        if held and not self._waits(held[0]):
            return held.popleft()
        while waiting and len(held) < MOST_HELD:
            if (job := self._begun(waiting.popleft())) is not None:
                return job
        return None

    def _ended(self, label: str) -> None:
        self.done += 1
        self.report(self.done, self.total, f"{label} is done")

    def _begun(self, point: Point) -> _Job | None:
        """The point with its machine; None for one that is none, which is kept with its reason."""
        label = self.space.label(point)
        line = {"kind": "machine", "label": label, "values": list(point)}
        try:
            machine = self.space.machine(point)
        except IsaError as error:
            self.store.add({**line, "failure": {"stage": "load", "reason": str(error).splitlines()[0]}})
            self._ended(label)
            return None
        key = self.space.machine_key(point, machine)
        self.store.add({**line, "machine": key})
        return _Job(point, label, machine, key)

    # -- what is next --------------------------------------------------------------------------------------------------

    def _waits(self, job: _Job) -> bool:
        """Whether another point finds the price that this one's is fitted to, which may take a minute."""
        is_being_found = self.pool.holds and self.space.structure(job.point) in self.pricing
        return is_being_found and not self._is_priced(job) and not self._failed(job, "price")

    def _early(self, job: _Job) -> StudyTask | None:
        """What may be measured of a point that has no price yet; None if all is."""
        for name, network in self.networks.items():
            if name not in job.early and self._find("point", self._point_key(job, network)) is None:
                return StudyTask(job.point, name, is_early=True)
        return None

    def _next(self, job: _Job) -> StudyTask | None:
        """What is still to be computed of a point; None when it is finished, fails, or cannot be worth it."""
        if not self._is_priced(job):
            if self._failed(job, "price"):
                return None
            if (structure := self.space.structure(job.point)) not in self.known:
                self.pricing.add(structure)
            return StudyTask(job.point)
        if not self._may_be_met(job):
            return None
        for name, network in self.networks.items():
            found = self._find("point", self._point_key(job, network))
            if found is None:
                return None if self._is_dropped(job) else StudyTask(job.point, name)
            outcome = outcome_from_json(found["outcome"])
            if not isinstance(outcome, NetworkFigures):
                return None
            job.networks[name] = outcome
        self._finish(job)
        return None

    def _find(self, kind: str, key: Mapping[str, Any]) -> Line | None:
        """A result that is kept, unless it is to be computed again."""
        line = self.store.find(kind, **key)
        return None if line is None or key_of(line) in self.stopped else line

    def _price_key(self, job: _Job) -> dict[str, Any]:
        return {"machine": job.key, "clock": self.space.needs_clock, "version": version()}

    def _point_key(self, job: _Job, network: Network) -> dict[str, Any]:
        return {"machine": job.key, "network": network.hash, "effort": self.space.effort, "version": version()}

    def _is_priced(self, job: _Job) -> bool:
        line = self._find("price", self._price_key(job))
        if line is not None and "figures" in line:
            job.price = MachineFigures.from_json(line["figures"])
        return job.price is not None

    def _failed(self, job: _Job, kind: str) -> bool:
        line = self._find(kind, self._price_key(job))
        return line is not None and "failure" in line

    def _may_be_met(self, job: _Job) -> bool:
        """Whether the constraints are met, as far as they can be told from the machine's price."""
        assert job.price is not None
        names = self.space.names(job.point) | machine_figures(job.price)
        return all(each.is_met(names) for each in self.space.constraints if not each.needs_networks)

    def _is_dropped(self, job: _Job) -> bool:
        """Whether a finished point beats this one however well its networks run; it is kept by which.

        Only points that leave nothing to the host count: cycles that a host saves are no gain.
        """
        assert job.price is not None
        if not self.is_dropping or not self.beating or "host_nodes" in self.space.objectives:
            return False
        cycles = 0.0
        for weighted in self.space.networks:
            known = job.networks.get(weighted.name)
            of_a_run = 0.0 if known else least_cycles(self._needs(weighted.name, job.machine), job.machine)
            least = known.cycles_per_image if known else of_a_run / (weighted.batch or 1)
            cycles += weighted.weight * least
        best = losses(best_possible(machine_figures(job.price), cycles), self.space.objectives)
        for label, own in self.beating.items():
            if dominates(own, best):
                facts = {"label": job.label, "by": label, "least_cycles": cycles, "version": version()}
                self.store.add({"kind": "dropped", "machine": job.key, **facts})
                return True
        return False

    def _needs(self, network: str, machine: Machine) -> Needs:
        of = network, arithmetic_of(machine).weight
        if of not in self.needs:
            self.needs[of] = needs_of(self.networks[network], of[1])
        return self.needs[of]

    # -- what is known -------------------------------------------------------------------------------------------------

    def _keep(self, job: _Job, task: StudyTask, value: Any) -> None:
        """Keep what a worker found."""
        is_failure = "stage" in value
        if task.is_early and not is_failure:
            job.early.add(str(task.network))
            return
        if task.network is None:
            structure = self.space.structure(job.point)
            self.pricing.discard(structure)
            self.known.add(structure)
            line = {"kind": "price", **self._price_key(job)}
            return self._add({**line, "failure": value} if is_failure else {**line, "figures": value})
        network = self.networks[task.network]
        line = {"kind": "point", **self._point_key(job, network)}
        if is_failure and "network" not in value:
            names = {"network": network.name, "network_hash": network.hash, "machine": job.machine.name}
            value = {**names, "machine_key": job.key, "effort": self.space.effort, **value}
        self._add({**line, "outcome": value})

    def _add(self, line: Line) -> None:
        self.stopped.discard(key_of(line))
        self.store.add(line)

    def _finish(self, job: _Job) -> None:
        """Know a point's figures, for searches and for what it beats."""
        assert job.price is not None
        figures = all_figures(
            job.price, [(weighted.weight, job.networks[weighted.name]) for weighted in self.space.networks]
        )
        names = self.space.names(job.point) | figures
        if all(constraint.is_met(names) for constraint in self.space.constraints):
            own = losses(figures, self.space.objectives)
            self.finished[job.point] = own
            if not figures["host_nodes"] and not any(dominates(other, own) for other in self.beating.values()):
                self.beating = {label: each for label, each in self.beating.items() if not dominates(own, each)}
                self.beating[job.label] = own
