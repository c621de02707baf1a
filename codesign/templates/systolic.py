"""What systolic arrays cost: the processing elements, and what controls them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.codesign.templates.facet import Facet, LayerWork, LogicEnergy
from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import iterations_of
from tilewright.isa.templates.systolic import sums_of_a_column, tile_loops
from tilewright.isa.timing import mma_write

ARRAY = "array"
"""The processing elements of an array; the rest of its engine is its control."""


class SystolicFacet(Facet):
    """Every element multiplies in every iteration."""

    def units(self, machine: Machine, engine: Engine) -> Mapping[str, str]:
        arrays = {f"{engine}.array" + (f"_{at}" if at else ""): ARRAY for at in range(_arrays(machine, engine))}
        return {engine.name: f"{engine} control", **arrays}

    def energy(
        self, engine: Engine, figures: LogicEnergy, iterations: int, areas_um2: Mapping[str, float]
    ) -> tuple[str, float]:
        rows, cols = _sizes(engine)
        return ARRAY, figures.array_pj_per_mac * iterations * rows * cols

    def cycles_in_flight(self, machine: Machine, engine: Engine, work: LayerWork) -> int:
        """From the first weight row or vector of each instruction to the sums of its last one."""
        vectors = sum(iterations_of(each) for each in work.instructions)
        rows = engine.array.rows * _tiles(work)
        return work.at_most(vectors + rows + len(work.instructions) * mma_write(engine.array))

    def events(self, machine: Machine, engine: Engine, work: LayerWork) -> Mapping[str, int]:
        """Weights are written once a tile, and once more when they come into use."""
        return {ARRAY: _tiles(work)}

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        return {ARRAY: self.products_a_cycle(machine, engine)}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        rows, cols = _sizes(engine)
        return rows * cols * _arrays(machine, engine) if machine.formats_of(engine) else 0


def _tiles(work: LayerWork) -> int:
    """Weight tiles that a layer's instructions read."""
    return sum(
        prod(each.trips[loop.name] for loop in each.format.loops[: tile_loops(each.format)])
        for each in work.instructions
    )


def _arrays(machine: Machine, engine: Engine) -> int:
    """As many as its narrowest weights make sums of each column."""
    return max((sums_of_a_column(format, machine.memories) for format in machine.formats_of(engine)), default=1)


def _sizes(engine: Engine) -> tuple[int, int]:
    assert isinstance(engine.settings, Systolic)
    return engine.settings.rows, engine.settings.cols
