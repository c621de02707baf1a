"""Workers that compile and simulate for true, and price a machine by arithmetic: synthesis takes a minute."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.worker import StudyTask
from tilewright.codesign.points.evaluate import evaluate
from tilewright.codesign.points.machine import machine_key
from tilewright.codesign.points.network import read_network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.isa.machine.machine import Machine


def serve(connection: Connection, space: Space) -> None:
    """As the true one."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            connection.send(answer(space, connection.recv()))


def answer(space: Space, task: StudyTask) -> Mapping[str, Any]:
    machine = space.machine(task.point)
    if task.network is None:
        return price(machine).as_json()
    path = next(each.path for each in space.networks if each.name == task.network)
    return evaluate(read_network(path, name=task.network), machine, space.effort).as_json()


def price(machine: Machine) -> MachineFigures:
    """A place of the array takes 0.001 mm², an instruction 0.01, and 100 bytes of memory 0.01."""
    logic = machine.array.rows * machine.array.cols / 1000 + len(machine.formats) / 100
    bytes_ = sum(memory.depth * memory.word_bytes for memory in machine.memories.values())
    return MachineFigures(
        machine=machine.name,
        machine_key=machine_key(machine),
        process="arithmetic",
        logic_mm2=logic,
        memories_mm2=bytes_ / 10000,
        kge=logic * 100,
        flip_flops=1,
        basis="estimated",
        fitted_to=None,
        clock_ns=None,
    )
