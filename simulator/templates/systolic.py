"""A systolic array in the cycle model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing
from tilewright.isa.machine.encoding import ACCUMULATE
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights, tile_loops
from tilewright.simulator.kernel.layout import (
    ACCUMULATES,
    FIRST_INNER,
    GROUP,
    ITERATIONS,
    MMA_A,
    MMA_C,
    MMA_W,
    Rows,
    nest_depth,
    record,
)
from tilewright.simulator.losses import Loss
from tilewright.simulator.templates.facet import Facet

RINGS = ("vectors", "weights", "c_read", "c_write", "c_last")
"""`vectors` and `weights` are loop indices; the others have by cycle the port of the sums that are read or written."""

RECORDS = {
    "arrays": record(
        *("rows", "weight_lead", "update", "read", "write", "slots", "next_start"),
        *("active", "instruction", "weight_tile", "weight_row", "weight_word", "vector_tile", "vector_index"),
        *("first_row_0", "first_row_1", "last_vector", "a_word", "c_word", "is_adding", "in_flight", "slot"),
        *("c_read_port", "c_write_port", "w_port", "a_port"),  # in this cycle, or -1
        "waits_for_sums",  # whether the next vector would read its sums where others are written then
        places=("number", "requester", *(f"at_{name}" for name in RINGS)),
    )
}


class SystolicFacet(Facet):
    """Weight tiles are read while vectors stream."""

    records = RECORDS

    def kind(self, engine: Engine) -> str:
        return "arrays"

    def settings(self, machine: Machine, engine: Engine) -> dict[str, int]:
        return {
            "rows": engine.array.rows,
            "weight_lead": timing.MMA_WEIGHT_LEAD,
            "update": timing.mma_update(engine.array),
            "read": timing.mma_read(engine.array),
            "write": timing.mma_write(engine.array),
            "slots": timing.mma_write(engine.array) + 1,
            "next_start": timing.next_start(machine.pipeline),
        }

    def rings(self, machine: Machine, engine: Engine) -> dict[str, NDArray[np.int64]]:
        loops, slots = nest_depth(machine), timing.mma_write(engine.array) + 1
        walks = {name: np.zeros(loops, np.int64) for name in ("vectors", "weights")}
        return walks | {name: np.full(slots, -1 if name != "c_last" else 0, np.int64) for name in RINGS[2:]}

    def requesters(self, machine: Machine, engine: Engine) -> int:
        return 1

    def loss(self, engine: Engine) -> Loss:
        return Loss.ARRAY

    def fill(self, rows: Rows) -> None:
        format = rows.format
        outer = tile_loops(format)
        a, w, c = systolic_activations(format), systolic_weights(format), format.destination
        rows.fill_operand(MMA_A, a, rows.first_words[a.memory])
        rows.fill_operand(MMA_W, w, rows.first_words[w.memory], outer)
        rows.fill_operand(MMA_C, c, rows.first_words[c.memory])
        rows.table[:, ITERATIONS] = rows.product(rows.trips[outer:])
        rows.table[:, GROUP] = rows.product(rows.trips[:outer])
        rows.table[:, FIRST_INNER] = rows.loops - len(format.loops) + outer
        if format.has_accumulate:
            rows.table[:, ACCUMULATES] = rows.field(ACCUMULATE)
