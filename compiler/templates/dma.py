"""DMA engines: they move boxes of tensors, whose bursts overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.templates.facet import Facet, Role
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS, dma_round_trip


class DmaFacet(Facet):
    """What a transfer costs is its beats, or what its bursts take."""

    role = Role.MOVES

    def most_under_way(self, engine: Engine) -> int:
        return engine.dma.contexts


def ports_of(machine: Machine, format: InstructionFormat) -> int:
    """Through how many AXI ports transfers by an instruction, and by those that are alike, pass side by side."""
    return len({alike.engine.dma.port for alike in machine.alike[format.mnemonic]})


def burst_cycles(
    machine: Machine, format: InstructionFormat, beats: NDArray[Any], runs: NDArray[Any]
) -> NDArray[np.float64]:
    """The least cycles of transfers with so many beats in so many runs: only so many bursts are under way at a time.

    Example: 10 runs of 3 beats are 10 bursts; of 16 at a time, with a round trip of 70 cycles, they take 43.75.
    """
    bursts = runs * np.ceil(beats / runs / BURST_BEATS)
    cycles = np.maximum(beats, bursts * dma_round_trip(machine) / format.engine.dma.bursts)
    through: NDArray[np.float64] = cycles / ports_of(machine, format)
    return through
