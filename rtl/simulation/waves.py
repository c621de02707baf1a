"""Runs a program on the hardware and writes its waves: signals over time, and what each engine works on as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.isa.folders.scratch import scratch
from tilewright.isa.program.state import MachineState, RunCounters
from tilewright.rtl.simulation.build import build_simulation
from tilewright.rtl.simulation.session import Job, RtlSession

MNEMONIC_BYTES, LAYER_BYTES = 24, 40
"""The room for texts in waves.cpp and waves.sv; of a longer name, the end is shown."""


@dataclass(frozen=True, slots=True)
class WaveWindow:
    """The waves that are wanted: from cycle `first` to the end of cycle `last`."""

    first: int
    last: int


def run_with_waves(job: Job, layers: Sequence[str], window: WaveWindow) -> tuple[MachineState, RunCounters, bytes]:
    """A run, and its waves as VCD; `layers` has the name of each instruction's layer. Raises RtlError as a run does."""
    session = RtlSession(job.program.machine, program=build_simulation(job.program.machine, has_waves=True))
    with scratch() as folder:
        _write_texts(folder, job, layers, window)
        ((state, counters),) = session.run_in(folder, [job])
        return state, counters, (folder / "waves.vcd").read_bytes()


def _write_texts(folder: Path, job: Job, layers: Sequence[str], window: WaveWindow) -> None:
    """What the test bench hands to waves.cpp."""
    length = max(1, len(job.program.instructions))
    engines = len(job.program.machine.engines)
    texts = np.zeros((engines, length, MNEMONIC_BYTES + LAYER_BYTES), np.uint8)
    numbers = np.zeros((engines, length), np.int64)
    counts = [0] * engines
    for index, (instruction, layer) in enumerate(zip(job.program.instructions, layers, strict=True)):
        engine = instruction.engine.number
        nth = counts[engine]
        counts[engine] += 1
        numbers[engine, nth] = index
        text = _fitted(instruction.mnemonic, MNEMONIC_BYTES) + _fitted(layer, LAYER_BYTES)
        texts[engine, nth] = np.frombuffer(text, np.uint8)
    np.savez(folder / "waves.npz", texts=texts, numbers=numbers)
    (folder / "waves.json").write_text(json.dumps({"first": window.first, "last": window.last}))


def _fitted(text: str, size: int) -> bytes:
    return text.encode("ascii", "replace")[-size:].rjust(size, b"\0")
