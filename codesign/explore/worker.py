"""A process that computes results one at a time, as it is told by the run that started it."""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from tilewright.codesign.errors import PriceError
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.points.evaluate import Failure, MeasuredNetwork, failure, figures, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import Priced, price_of
from tilewright.codesign.price.process import Process, load_process
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.rare_collection import collect_rarely


@dataclass(frozen=True, slots=True)
class StudyTask:
    """The price of a point's machine, or with a network, that network on it.

    What is measured early is not priced yet: its worker holds it until the same task comes again, which is not early.
    """

    point: Point
    network: str | None = None
    is_early: bool = False


def work(serve: Callable[[Connection, Space], None], connection: Connection, space: Space, folder: Path) -> None:
    """Serve in a process that ends with its run, with all that it has started; temporary files are in a folder."""
    os.setpgrp()  # Ctrl-C is for the run, which ends its workers and what they have started
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    threading.Thread(target=_end_with_run, args=(connection.fileno(), folder), daemon=True).start()
    serve(connection, space)
    _end_all(folder)


def serve(connection: Connection, space: Space) -> None:
    """Answer tasks with results as plain values, until the other end is gone."""
    worker = Worker(space)
    collect_rarely()
    gc.freeze()  # the code that is loaded by now is no garbage, and is not searched for it at each price
    with suppress(EOFError, OSError):
        while True:
            connection.send(worker.answer(connection.recv()))


def _end_with_run(connection: int, folder: Path) -> None:
    """A run that was killed cannot end its workers: they see that the other end is gone, and leave nothing."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    watch.poll()
    _end_all(folder)


def _end_all(folder: Path) -> None:
    """End what this worker has started, then itself, without its temporary files."""
    for number in psutil.pids():
        with suppress(OSError):
            if number != os.getpid() and os.getpgid(number) == os.getpgrp():
                os.kill(number, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another worker's folder may be there
        folder.parent.rmdir()
    os.killpg(0, signal.SIGKILL)


@dataclass
class Worker:
    """Answers tasks, and keeps what the next ones may need: the networks, the last machine's price, early measures."""

    space: Space
    process: Process = field(default_factory=load_process)
    networks: dict[str, Network] = field(default_factory=dict)
    machines: dict[Point, Machine] = field(default_factory=dict)
    prices: dict[Point, Priced] = field(default_factory=dict)
    likes: dict[Point, Machine] = field(default_factory=dict)  # by the values of what is no size
    early: dict[tuple[Point, str], MeasuredNetwork | Failure] = field(
        default_factory=dict
    )  # until their machine has a price

    def answer(self, task: StudyTask) -> Mapping[str, Any]:
        """The figures, or the stage and reason of a failure; of a defect, too, which costs only this point.

        Nothing for what is measured early.
        """
        try:
            machine = self._machine(task.point)
            if task.network is None:
                return self._priced(task.point, machine).figures.as_json()
            network = self._network(task.network)
            if task.is_early:
                self.early[task.point, task.network] = measure(network, machine, self.space.effort)
                return {}
            try:
                price = self._priced(task.point, machine).price
            except PriceError as error:
                return failure(network, machine, self.space.effort, "price", str(error)).as_json()
            found = self.early.pop((task.point, task.network), None) or measure(network, machine, self.space.effort)
            return (found if isinstance(found, Failure) else figures(found, price)).as_json()
        except (IsaError, PriceError) as error:
            return {"stage": "price", "reason": str(error).splitlines()[0]}
        except MemoryError:
            return {"stage": "limit", "reason": "memory ran out"}
        except Exception as error:  # a defect of ours: the study goes on, and shows it
            return {"stage": "defect", "reason": f"{type(error).__name__}: {error}"}

    def _machine(self, point: Point) -> Machine:
        """The last machine is kept: its networks come next."""
        if point not in self.machines:
            self.machines = {point: self.space.machine(point)}
        return self.machines[point]

    def _network(self, name: str) -> Network:
        if name not in self.networks:
            self.networks[name] = next(network for network in self.space.networks if network.name == name).read()
        return self.networks[name]

    def _priced(self, point: Point, machine: Machine) -> Priced:
        """The price of the last machine is kept: its networks come next."""
        if point not in self.prices:
            like = self._like(point, machine)
            target = self.space.target_mhz(point)
            self.prices = {point: price_of(machine, like, self.space.needs_clock, self.process, target)}
        return self.prices[point]

    def _like(self, point: Point, machine: Machine) -> Machine | None:
        """The machine whose price this one's is fitted to, unless it has no other sizes, or there can be none."""
        with suppress(IsaError):
            structure = self.space.structure(point)
            if structure not in self.likes:
                self.likes[structure] = self.space.like(point)
            like = self.likes[structure]
            return None if like.name == machine.name else like
        return None
