"""Systolic arrays: a matrix goes through them as weight tiles, and vectors stream through each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.templates.facet import Facet, Role
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import mma_tile, mma_write


class SystolicFacet(Facet):
    """What a product costs is its weight tiles times its vectors, at least `isa.timing.mma_tile` of each."""

    role = Role.MULTIPLIES

    def product_cycles(self, format: InstructionFormat, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum(vectors, mma_tile(format.engine.array))

    def product_latency(self, format: InstructionFormat) -> int:
        return mma_write(format.engine.array)


def weight_tiles(machine: Machine, results: int, summed: int = 1) -> int:
    """The weight tiles of a matrix that makes so many sums of so many products each."""
    return -(-results // machine.array.cols) * -(-summed // machine.array.rows)
