"""What does a run's tasks: worker processes here, each with a limit of seconds and of memory, or those of a cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.worker import Task

Serve = Callable[[Connection, Space], None]

POLL_SECONDS = 0.2
"""How often memory and time are looked at."""

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task may take: seconds of the clock on the wall, and GiB of memory."""

    seconds: float = 900.0
    gib: float = 4.0


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task | None = None
    since: float = 0.0


Answer = tuple[Task, Mapping[str, Any]]


class Workers(Protocol):
    """Workers by number, in a `with`, which ends them. A point's tasks go best to one worker, which keeps the machine.

    Each task that was given is answered once, also that of a worker that dies or takes too much: with a failure.
    """

    def __enter__(self) -> Workers: ...

    def __exit__(self, *_: object) -> None: ...

    def idle(self) -> Iterable[int]:
        """Numbers of the workers that have nothing to do; a number stays what it is, and there may come others."""

    def give(self, number: int, task: Task) -> None:
        """Have an idle worker do a task."""

    def answers(self) -> list[tuple[int, Answer]]:
        """What workers have finished, or were ended over; waits for a moment if nothing is there."""


class Pool:
    """So many processes on this machine for a space. One that goes beyond the limits is ended, and replaced."""

    def __init__(self, space: Space, count: int, limits: Limits, serve: Serve) -> None:
        self._space = space
        self._limits = limits
        self._serve = serve
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([serve.__module__])  # imported once, for all workers
        self._workers = [self._started() for _ in range(count)]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)

    def _started(self) -> _Worker:
        own, others = self._context.Pipe()
        process = self._context.Process(target=self._serve, args=(others, self._space), daemon=False)
        process.start()
        others.close()
        return _Worker(process, own)

    def idle(self) -> Iterator[int]:
        """Numbers of the workers that have nothing to do."""
        return (number for number, worker in enumerate(self._workers) if worker.task is None)

    def give(self, number: int, task: Task) -> None:
        """Have an idle worker do a task; one that has died since is replaced."""
        worker = self._workers[number]
        worker.task, worker.since = task, time.monotonic()
        with suppress(OSError):  # it has died: `answers` sees that
            worker.connection.send(task)

    def answers(self) -> list[tuple[int, Answer]]:
        """What workers have finished, or were ended over; waits for a moment if nothing is there."""
        busy = {worker.connection: number for number, worker in enumerate(self._workers) if worker.task is not None}
        ready = wait(list(busy), POLL_SECONDS) if busy else []
        found = [(busy[one], self._answer(busy[one])) for one in ready if isinstance(one, Connection)]
        for number, worker in enumerate(self._workers):
            if worker.task is not None and (reason := self._excess(worker)):
                found.append((number, self._replaced(number, reason)))
        return found

    def _answer(self, number: int) -> Answer:
        worker = self._workers[number]
        assert worker.task is not None
        try:
            answer: Answer = (worker.task, worker.connection.recv())
        except (EOFError, OSError):
            worker.process.join(5)
            code = worker.process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
            return self._replaced(number, f"its process ended with {how}, as when memory runs out")
        worker.task = None
        return answer

    def _excess(self, worker: _Worker) -> str:
        """What a worker has too much of; nothing if all is well."""
        if time.monotonic() - worker.since > self._limits.seconds:
            return f"took longer than {self._limits.seconds:g} seconds"
        if _gib_of(worker.process.pid or 0) > self._limits.gib:
            return f"took more than {self._limits.gib:g} GiB of memory"
        return ""

    def _replaced(self, number: int, reason: str) -> Answer:
        task = self._workers[number].task
        assert task is not None
        _end(self._workers[number])
        self._workers[number] = self._started()
        return task, {"stage": "limit", "reason": reason}


def _end(worker: _Worker) -> None:
    """End a worker at once, with all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid or -1, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have made its group yet
        worker.process.kill()
    worker.process.join()
    worker.connection.close()


def _gib_of(process: int) -> float:
    """Memory that a process holds now; 0 where the system does not say."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * PAGE / 2**30
    except (OSError, ValueError, IndexError):
        return 0.0
