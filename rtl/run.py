"""Runs a program on the hardware, simulated from the same Verilog that synthesis gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import MachineState, RunCounters
from tilewright.rtl.simulation.session import Job, RtlSession


def run_rtl(program: Program, dram: NDArray[np.uint8], bases: Mapping[str, int]) -> tuple[MachineState, RunCounters]:
    """Run a program from the state after power-up, to its end or its first fault; `dram` is copied.

    `dram` is the whole DRAM with the regions at `bases`, which are multiples of 4 KiB. The first run of a machine
    builds its simulation, which is kept in the cache. Raises RtlError when the tools are missing or the run does not
    end.
    """
    return run_rtl_many(program.machine, [(program, dram, bases)])[0]


def run_rtl_many(
    machine: Machine, jobs: Sequence[tuple[Program, NDArray[np.uint8], Mapping[str, int]]]
) -> list[tuple[MachineState, RunCounters]]:
    """Run programs of one machine in one simulation process, each as `run_rtl` does."""
    return RtlSession(machine).run([Job(*job) for job in jobs])
