"""The executors of a binary behind one face: the simulator, the hardware and the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.isa.program.faults import MachineFault
from tilewright.isa.program.program import Program, dram_bytes, place_regions
from tilewright.isa.program.state import MachineState, RunCounters

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import RunProfile
    from tilewright.simulator.values import PreparedProgram


@dataclass(frozen=True)
class Outcome:
    """The machine after a run, and the run's counters if the executor has a clock."""

    state: MachineState
    counters: RunCounters | None


class Executor(Protocol):
    """Runs one program on DRAM images. Raises MachineFault where the machine would stop."""

    def run(self, image: NDArray[np.uint8]) -> Outcome: ...

    def counters(self) -> RunCounters | None: ...


def executor(name: str, program: Program) -> Executor:
    """The executor of a name; raises InputError for an unknown one."""
    if name not in EXECUTORS:
        raise InputError(f"no executor {name!r}; there are: {', '.join(EXECUTORS)}")
    return EXECUTORS[name](program)


class SimulatorExecutor:
    """Values as array operations, cycles from the cycle model; the program is prepared once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bases = place_regions(program.limits)

    def run(self, image: NDArray[np.uint8]) -> Outcome:
        state = self._prepared.run(image)
        return Outcome(state, self._counters)

    def counters(self) -> RunCounters:
        if self._prepared.fault is not None:
            raise MachineFault(self._prepared.fault)
        return self._counters

    @cached_property
    def _prepared(self) -> PreparedProgram:
        from tilewright.simulator.values import PreparedProgram

        return PreparedProgram(self._program, self._bases)

    @cached_property
    def _counters(self) -> RunCounters:
        """Cycles do not depend on data, so one simulation serves every run."""
        from tilewright.simulator.cycles import simulate_cycles

        return simulate_cycles(self._program, self._bases)


class RtlExecutor:
    """The hardware under Verilator; its first use builds the simulation."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bases = place_regions(program.limits)

    def run(self, image: NDArray[np.uint8]) -> Outcome:
        from tilewright.rtl.run import run_rtl

        state, counters = run_rtl(self._program, image, self._bases)
        if counters.fault is not None:
            raise MachineFault(counters.fault)
        return Outcome(state, counters)

    def counters(self) -> RunCounters | None:
        image = np.zeros(dram_bytes(self._program.limits), np.uint8)
        for region, content in (("program", self._program.text), ("weights", self._program.weights)):
            start = self._bases[region]
            image[start : start + len(content)] = np.frombuffer(content, np.uint8)
        return self.run(image).counters


class InterpreterExecutor:
    """The scalar interpreter: slow, without a clock, and the oracle of the other two."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def run(self, image: NDArray[np.uint8]) -> Outcome:
        from tilewright.simulator.interpreter import interpret

        return Outcome(interpret(self._program, image, place_regions(self._program.limits)), None)

    def counters(self) -> None:
        return None


EXECUTORS: Mapping[str, Callable[[Program], Executor]] = {
    "sim": SimulatorExecutor,
    "rtl": RtlExecutor,
    "interpreter": InterpreterExecutor,
}
"""What `--on` and `Program.run(on=…)` take."""


def profile_of(program: Program, counters: RunCounters) -> RunProfile:
    """The profile of a run, for the simulator's counters and the hardware's alike."""
    from tilewright.simulator.profile import profile

    return profile(program, counters)
