"""What systolic arrays cost: the processing elements, and what controls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from tilewright.codesign.price.process import LogicEnergy
from tilewright.codesign.templates.facet import Accesses, Facet
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction
from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights, tile_loops

ARRAY = "array"
"""The processing elements of an array; the rest of its engine is its control."""


class SystolicFacet(Facet):
    """Every element multiplies in every iteration."""

    def units(self, engine: Engine) -> Mapping[str, str]:
        return {engine.name: f"{engine} control", f"{engine}.array": ARRAY}

    def accesses(self, machine: Machine, instruction: Instruction) -> Accesses:
        """A vector and its sums an iteration, and the rows of every weight tile; new sums do not read the old ones."""
        format, trips = instruction.format, instruction.trips
        activations, weights, sums = systolic_activations(format), systolic_weights(format), format.destination
        vectors = prod(trips.values())
        tiles = prod(list(trips.values())[: tile_loops(format)])
        adds_to_all = format.has_accumulate and instruction[ACCUMULATE] == 1
        reduced = prod(trips[name] for name in format.reduce_loops)
        reads: Counter[str] = Counter()
        reads[activations.memory] += vectors
        rows, _ = _sizes(instruction.engine)
        reads[weights.memory] += tiles * rows
        reads[sums.memory] += vectors if adds_to_all else vectors - vectors // reduced
        return Accesses(reads, Counter({sums.memory: vectors * sums.block}), Counter())

    def energy(
        self, engine: Engine, figures: LogicEnergy, iterations: int, areas_um2: Mapping[str, float]
    ) -> tuple[str, float]:
        rows, cols = _sizes(engine)
        return ARRAY, figures.array_pj_per_mac * iterations * rows * cols

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        return {ARRAY: self.products_a_cycle(machine, engine)}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        rows, cols = _sizes(engine)
        return rows * cols if machine.formats_of(engine) else 0


def _sizes(engine: Engine) -> tuple[int, int]:
    assert isinstance(engine.settings, Systolic)
    return engine.settings.rows, engine.settings.cols
