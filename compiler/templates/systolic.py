"""Systolic arrays: a matrix goes through them as weight tiles, and vectors stream through each."""

from __future__ import annotations

from tilewright.compiler.templates.facet import Facet, Role
from tilewright.isa.machine.machine import Machine


class SystolicFacet(Facet):
    """What a product costs is its weight tiles times its vectors, at least `isa.timing.mma_tile` of each."""

    role = Role.MULTIPLIES


def weight_tiles(machine: Machine, results: int, summed: int = 1) -> int:
    """The weight tiles of a matrix that makes so many sums of so many products each."""
    return -(-results // machine.array.cols) * -(-summed // machine.array.rows)
