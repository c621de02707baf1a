"""What does a run's tasks: worker processes here, each with a limit of seconds and of memory, or those of a cluster.

What groups of processes take is measured: of the processor since their beginning, and of memory now.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.worker import StudyTask, work
from tilewright.isa.folders.scratch import scratch

Serve = Callable[[Connection, Space], None]

POLL_SECONDS = 0.2
"""How long the run waits for answers before it looks at other things."""

LOOK_SECONDS = 0.4
"""How often memory and time are looked at."""

LEAST_PROGRESS_SECONDS = 0.05
"""Of the processor: who takes less between two looks makes no progress."""

LONGEST_TEMPORARY_FOLDER = 60
"""Bytes of its path: a socket's has 104 at most (`sun_path` on macOS), and Python's names below take up to 40."""

LIMIT, STALLED = "limit", "stalled"
"""Stages of results that were stopped: for what they took, or since nothing happened any more."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What a task may take, with all that it starts: seconds of the processor, and GiB of memory.

    `stalled`: so many seconds on the wall without any of the processor's end it, too. Beside other work, a task may
    take any time on the wall.
    """

    seconds: float = 900.0
    gib: float = 4.0
    stalled: float = 900.0


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    folder: Path  # for its temporary files
    task: StudyTask | None = None
    before: float | None = None  # seconds of the processor that it took for other tasks; None: not looked at yet
    seen: float = 0.0  # those at the last look that saw progress
    still: float = 0.0  # seconds on the wall since then


Answer = tuple[StudyTask, Mapping[str, Any]]


class Workers(Protocol):
    """Workers by number, in a `with`, which ends them. A point's tasks go best to one worker, which keeps the machine.

    Each task that was given is answered once, also that of a worker that dies or takes too much: with a failure.
    """

    holds: bool
    """Whether a worker's number stands for one process, which holds what it measured early."""

    def __enter__(self) -> Workers: ...

    def __exit__(self, *_: object) -> None: ...

    def idle(self) -> Iterable[int]:
        """Numbers of the workers that have nothing to do; a number stays what it is, and there may come others."""

    def give(self, number: int, task: StudyTask) -> None:
        """Have an idle worker do a task."""

    def answers(self) -> list[tuple[int, Answer]]:
        """What workers have finished, or were ended over; waits for a moment if nothing is there."""


class Pool:
    """So many processes on this machine for a space. One that goes beyond the limits is ended, and replaced."""

    holds = True

    def __init__(self, space: Space, count: int, limits: TaskLimits, serve: Serve) -> None:
        self._space = space
        self._limits = limits
        self._serve = serve
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([serve.__module__])  # imported once, for all workers
        self._opened = ExitStack()
        self._folder = self._opened.enter_context(scratch())
        self._looked = time.monotonic()
        self._started_so_far = 0
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(self._started())
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)
        self._opened.close()

    def _started(self) -> _Worker:
        self._started_so_far += 1
        folder = self._folder / str(self._started_so_far)
        folder.mkdir()
        own, others = self._context.Pipe()
        arguments = (self._serve, others, self._space, folder)
        process = self._context.Process(target=work, args=arguments, daemon=False)
        with _without_interrupts(), _short_temporary_folder():
            forkserver.ensure_running()
            process.start()
        others.close()
        return _Worker(process, own, folder)

    def idle(self) -> Iterator[int]:
        """Numbers of the workers that have nothing to do."""
        return (number for number, worker in enumerate(self._workers) if worker.task is None)

    def give(self, number: int, task: StudyTask) -> None:
        """Have an idle worker do a task; one that has died since is replaced."""
        worker = self._workers[number]
        worker.task, worker.before, worker.still = task, None, 0.0
        with suppress(OSError):  # it has died: `answers` sees that
            worker.connection.send(task)

    def answers(self) -> list[tuple[int, Answer]]:
        """What workers have finished, or were ended over; waits for a moment if nothing is there."""
        busy = {worker.connection: number for number, worker in enumerate(self._workers) if worker.task is not None}
        ready = wait(list(busy), POLL_SECONDS) if busy else []
        found = [(busy[one], self._answer(busy[one])) for one in ready if isinstance(one, Connection)]
        return [*found, *self._stopped()]

    def _stopped(self) -> Iterator[tuple[int, Answer]]:
        """The tasks that take too much, which end with their workers."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK_SECONDS:
            return
        self._looked = now
        busy = {
            worker.process.pid or 0: number for number, worker in enumerate(self._workers) if worker.task is not None
        }
        for group, usage in usage_of_groups(busy).items():
            number = busy[group]
            if failure := self._excess(self._workers[number], usage, min(passed, 5 * LOOK_SECONDS)):
                yield number, self._replaced(number, failure)

    def _answer(self, number: int) -> Answer:
        worker = self._workers[number]
        assert worker.task is not None
        try:
            answer: Answer = (worker.task, worker.connection.recv())
        except (EOFError, OSError):
            worker.process.join(5)
            code = worker.process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
            reason = f"its process ended with {how}, as when memory runs out"
            return self._replaced(number, {"stage": LIMIT, "reason": reason})
        worker.task = None
        return answer

    def _excess(self, worker: _Worker, usage: Usage, passed: float) -> Mapping[str, str] | None:
        """What a worker has too much of; None if all is well. `passed` is 0 for the time in which this run stood."""
        if worker.before is None:
            worker.before = worker.seen = usage.seconds
        if usage.seconds - worker.seen >= LEAST_PROGRESS_SECONDS:
            worker.seen, worker.still = usage.seconds, 0.0
        else:
            worker.still += passed
        limits = self._limits
        if usage.seconds - worker.before > limits.seconds:
            return {"stage": LIMIT, "reason": f"took longer than {limits.seconds:g} seconds of the processor"}
        if usage.gib > limits.gib:
            return {"stage": LIMIT, "reason": f"took more than {limits.gib:g} GiB of memory"}
        if worker.still > limits.stalled:
            reason = f"did nothing for {limits.stalled:g} seconds; the next run tries it again"
            return {"stage": STALLED, "reason": reason}
        return None

    def _replaced(self, number: int, failure: Mapping[str, str]) -> Answer:
        task = self._workers[number].task
        assert task is not None
        _end(self._workers[number])
        self._workers[number] = self._started()
        return task, failure


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started in the body never sees Ctrl-C, which is for the run; the run itself sees it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """In the body, a temporary folder whose path is short enough for that of a socket below it, as in a long TMPDIR."""
    before = tempfile.gettempdir()
    if len(os.fsencode(before)) > LONGEST_TEMPORARY_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = before


def _end(worker: _Worker) -> None:
    """End a worker at once, with all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid or -1, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have made its group yet
        worker.process.kill()
    worker.process.join()
    worker.connection.close()
    shutil.rmtree(worker.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of the processor, of ended children too, and GiB of memory."""

    seconds: float = 0.0
    gib: float = 0.0


def usage_of_groups(groups: Collection[int]) -> Mapping[int, Usage]:
    """What each of the groups of processes takes, by its number; a worker is a group with all that it has started."""
    import psutil

    found: dict[int, Usage] = defaultdict(Usage, {group: Usage() for group in groups})
    for number in psutil.pids() if groups else ():
        with suppress(OSError, psutil.Error):
            group = os.getpgid(number)
            if group in groups:
                process = psutil.Process(number)
                times, memory = process.cpu_times(), process.memory_info().rss / 2**30
                seconds = times.user + times.system + times.children_user + times.children_system
                found[group] = Usage(found[group].seconds + seconds, found[group].gib + memory)
    return found
