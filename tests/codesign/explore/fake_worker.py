"""Workers that answer with figures from arithmetic: networks' names say what goes wrong with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tilewright.codesign.explore.pool import Answer
from tilewright.codesign.explore.run import Choices
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.worker import StudyTask


class FakePool:
    """Workers in this process, of which the last one is always first."""

    holds = True

    def __init__(self, space: Space, choices: Choices, serve: object) -> None:
        self._space = space
        self._tasks: dict[int, StudyTask | None] = dict.fromkeys(range(choices.workers))

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks.clear()

    def idle(self) -> list[int]:
        return [number for number, task in self._tasks.items() if task is None]

    def give(self, number: int, task: StudyTask) -> None:
        self._tasks[number] = task

    def answers(self) -> list[tuple[int, Answer]]:
        for number, task in reversed(self._tasks.items()):
            if task is not None:
                self._tasks[number] = None
                return [(number, (task, answer(self._space, task)))]
        return []


def serve(connection: Connection, space: Space) -> None:
    """As the true one."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            connection.send(answer(space, connection.recv()))
    except (EOFError, OSError):
        return


def answer(space: Space, task: StudyTask) -> Mapping[str, Any]:
    """A machine takes 1 mm² for each 8 KiB; cycles fall with memory and bus."""
    names = space.names(task.point)
    kib, queue = int(str(names["memories.act.kib"])), int(str(names["engines.vec.queue"]))
    if task.network is None:
        return price(kib, queue)
    if task.is_early:
        return {}
    if task.network == "hangs" and kib == 16:
        time.sleep(100)
    if task.network == "spins" and kib == 16:
        while True:
            pass
    if task.network == "starts" and kib == 16:
        subprocess.run([sys.executable, "-c", "while True: pass"])
    if task.network == "waits" and kib == 16:  # longer than it may compute, and does a little
        for _ in range(30):
            time.sleep(0.1)
            sum(range(10**6))
    if task.network == "eats" and kib == 16:
        held = bytearray(300 << 20)
        time.sleep(100 + held[0])
    if task.network == "dies" and kib == 16:
        os.kill(os.getpid(), signal.SIGSEGV)
    if task.network == "murders" and kib == 16:
        above = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(above.rpartition(")")[2].split()[1]), signal.SIGKILL)  # who started the process that forks workers
        time.sleep(1)
    if task.network == "slow":
        time.sleep(0.2)
    return network(task.network, kib, queue)


def price(kib: int, queue: int) -> Mapping[str, Any]:
    facts = {"machine": "m", "machine_key": "k", "process": "p", "kge": 1.0, "flip_flops": 10 * queue}
    more = {"basis": "estimated", "fitted_to": None, "clock_ns": None, "clock_limit": ""}
    return {**facts, **more, "logic_mm2": 1.0 + queue / 100, "memories_mm2": kib / 8}


def network(name: str, kib: int, queue: int) -> Mapping[str, Any]:
    facts = {"network": name, "network_hash": "h", "machine": "m", "machine_key": "k", "effort": 1, "macs": 1000}
    more = {"utilisation": 0.5, "dram_bytes": 100, "on_chip_mj": 1.0, "dram_mj": 1.0, "host_nodes": 0}
    last = {"instructions": 10, "program_bytes": 100, "compile_seconds": 0.1, "unmeasured": ()}
    return {**facts, **more, **last, "cycles": 100_000 // kib - queue}
