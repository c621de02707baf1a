"""What a run leaves behind, in one form for all executors: memories byte for byte, and what the counters saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault


@dataclass(slots=True)
class MachineState:
    """All bytes of a machine: `memories[name]` is uint8 [depth, word_bytes], `dram` is uint8 [bytes]."""

    memories: dict[str, NDArray[np.uint8]]
    dram: NDArray[np.uint8]


def initial_state(machine: Machine, dram: NDArray[np.uint8]) -> MachineState:
    """A machine after reset: on-chip memories are zero; `dram` is copied."""
    memories = {m.name: np.zeros((m.depth, m.word_bytes), np.uint8) for m in machine.memories.values()}
    return MachineState(memories, dram.copy())


STALLS = ("port", "dram", "weights")
"""Causes for which an engine with an instruction in hand makes no progress in a cycle."""


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Cycles of one engine; busy + all waits + all stalls + idle = the run's cycles."""

    busy: int  # made progress
    wait: Mapping[str, int]  # by engine: the next instruction waits for that engine
    stall: Mapping[str, int]  # by cause, see STALLS
    idle: int  # no instruction in the queue


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Bytes that passed an AXI port, counted as those of all ports are."""

    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class RunCounters:
    """What the machine's counters and trace say of one run."""

    cycles: int  # from start to done
    engines: Mapping[str, EngineCounters]
    dram_bytes_read: int  # bytes of bus beats, fetch included
    dram_bytes_written: int  # bytes enabled by write strobes
    started: NDArray[np.int64]  # per instruction: the cycle in which its engine took it from the queue
    retired: NDArray[np.int64]  # per instruction: the first cycle in which its completion is visible
    fault: Fault | None
    dispatched: NDArray[np.int64] | None = None  # per instruction: when it went into its queue; hardware does not tell
    ports: tuple[PortCounters, ...] = ()  # by AXI port; of a machine with several that counts them
