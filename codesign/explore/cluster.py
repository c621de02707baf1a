"""Workers of a Dask cluster. Each does a task in a process of its own, which is ended at the limits, as on one machine.

The networks go to the workers as bytes: a worker needs this package of the same version, and no file of the study.
When a worker dies, Dask gives its tasks to others. One with which more died than Dask allows is tried once more, with
nothing else at work; then it is kept as failed.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from distributed import Future, Worker, WorkerPlugin, get_worker
from distributed.scheduler import KilledWorker

from tilewright.codesign.dask_client import client_at, require_same_code
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.pool import POLL_SECONDS, Answer, Pool, Serve, TaskLimits
from tilewright.codesign.explore.run import Choices, MakePool
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.explore.worker import StudyTask
from tilewright.codesign.points.network import read_network
from tilewright.codesign.version import version

LOOK_SECONDS = 1.0
"""How often the workers of the cluster are counted."""


def cluster_at(address: str, say: Callable[[str], None]) -> MakePool:
    """The workers of the scheduler at an address, or of the one that a scheduler file names; `say` is told how many."""

    def made(space: Space, choices: Choices, serve: Serve) -> Cluster:
        cluster = Cluster(address, space, choices.limits, serve)
        count = cluster.threads
        more = "; points are computed as soon as some come" if not count else ""
        say(f"{address}: {count:,} thread{'s' * (count != 1)} of workers{more}")
        return cluster

    return made


class Cluster:
    """As many numbers as the workers of Dask have had threads at once; Dask chooses which of them does a task.

    A point's later tasks depend on the result of its first, so that Dask has them done where that is: by the worker
    that has the machine. They are not bound to it: a task that is bound to a worker which dies may wait for ever.
    """

    holds = False

    def __init__(self, address: str, space: Space, limits: TaskLimits, serve: Serve) -> None:
        """Raises StudyError where no scheduler answers."""
        self._address = address
        self._client = client_at(address)
        self._name = f"tilewright explore, {socket.gethostname()} {time.time_ns()}"
        self._client.register_plugin(_Explorer(space, limits, serve), self._name)
        self.threads = 0
        self._tasks: dict[int, tuple[StudyTask, Future]] = {}
        self._firsts: dict[int, tuple[Point, Future]] = {}  # by number, what its last point began with
        self._suspects: list[int] = []  # numbers of tasks over which workers died, or over others beside them
        self._alone: int | None = None  # the one of them that is at work
        self._done: SimpleQueue[int] = SimpleQueue()
        self._looked = 0.0
        self._look()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, TimeoutError):
            self._client.cancel([future for _, future in self._tasks.values()])
            self._client.unregister_worker_plugin(self._name)
        self._client.close()

    def idle(self) -> list[int]:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()
        return [] if self._suspects else [number for number in range(self.threads) if number not in self._tasks]

    def _look(self) -> None:
        """Count the threads. Those that are gone leave their numbers to the next that come."""
        self._looked = time.monotonic()
        try:
            self.threads = max(self.threads, sum(self._client.nthreads().values()))
        except OSError as error:
            raise self._gone() from error

    def give(self, number: int, task: StudyTask) -> None:
        point, first = self._firsts.get(number, (None, None))
        after = first if point == task.point else None
        future = self._client.submit(_answered, self._name, version(), task, after, pure=False)
        self._tasks[number] = (task, future)
        future.add_done_callback(lambda _: self._done.put(number))

    def answers(self) -> list[tuple[int, Answer]]:
        found = []
        with suppress(Empty):
            number = self._done.get(timeout=POLL_SECONDS)
            while True:
                found += self._answer(number)
                number = self._done.get_nowait()
        if not found and self._client.status not in ("running", "connecting"):
            raise self._gone()
        if self._alone is None and self._suspects and len(self._tasks) == len(self._suspects):
            self._alone = self._suspects[0]
            self.give(self._alone, self._tasks[self._alone][0])
        return found

    def _answer(self, number: int) -> list[tuple[int, Answer]]:
        """What came of a task; nothing yet if it will be tried once more."""
        task, future = self._tasks[number]
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker) and number != self._alone:
            self._suspects.append(number)
            return []
        if number == self._alone:
            self._alone = None
            self._suspects.remove(number)
        del self._tasks[number]
        return [(number, (task, self._value(number, task, future, error)))]

    def _value(self, number: int, task: StudyTask, future: Future, error: BaseException | None) -> Mapping[str, Any]:
        if future.status == "finished":
            if self._firsts.get(number, (None, None))[0] != task.point:
                self._firsts[number] = (task.point, future)
            value: Mapping[str, Any] = future.result()
            return value
        match error:
            case KilledWorker():
                return {"stage": "limit", "reason": "workers of the cluster died over it, as when memory runs out"}
            case StudyError():
                raise error
            case None:
                raise self._gone()
        raise StudyError(
            f"{self._address}: a worker cannot do a task: {type(error).__name__}: {error}; "
            "it needs the same version of Tilewright and of all packages as this run"
        ) from error

    def _gone(self) -> StudyError:
        return StudyError(
            f"{self._address}: the Dask scheduler is gone; all results before are kept: give the same command again, "
            "with a scheduler that runs"
        )


def _answered(name: str, code: str, task: StudyTask, after: object) -> Mapping[str, Any]:
    """What a worker does for a task. Raises StudyError where its code is not the run's."""
    require_same_code(code)
    explorer = get_worker().plugins[name]
    assert isinstance(explorer, _Explorer)
    return explorer.answer(task)


class _Explorer(WorkerPlugin):
    """What a worker keeps for a study: its networks, and for each thread a process that does the tasks."""

    def __init__(self, space: Space, limits: TaskLimits, serve: Serve) -> None:
        self._space = space
        self._contents = [read_network(each.path, name=each.name).content for each in space.networks]
        self._limits = limits
        self._serve = serve

    def setup(self, worker: Worker) -> None:
        """Write the networks where this worker may."""
        multiprocessing.current_process().daemon = False  # as Dask starts it, it may have no processes of its own
        folder = Path(worker.local_directory)
        networks = []
        for number, (network, content) in enumerate(zip(self._space.networks, self._contents, strict=True)):
            path = folder / f"{number}{network.path.suffix}"
            path.write_bytes(content)
            networks.append(replace(network, path=path))
        self._space = replace(self._space, networks=tuple(networks))
        self._idle: list[Pool] = []
        self._pools: list[Pool] = []

    def teardown(self, worker: Worker) -> None:
        """End the processes, also those that are at work."""
        for pool in self._pools:
            pool.__exit__()

    def answer(self, task: StudyTask) -> Mapping[str, Any]:
        """The process that was last at work has the machine, where the worker has one thread."""
        if self._idle:
            pool = self._idle.pop()
        else:
            pool = Pool(self._space, 1, self._limits, self._serve)
            self._pools.append(pool)
        pool.give(0, task)
        while not (found := pool.answers()):
            pass
        self._idle.append(pool)
        [(_, (_, answer))] = found
        return answer
