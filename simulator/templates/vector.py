"""A vector engine in the cycle model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.simulator.kernel.layout import (
    GROUP,
    ITERATIONS,
    REFUSABLE,
    RESULT_LIMIT,
    SOURCES,
    TO_WRITE,
    Rows,
    nest_depth,
    record,
)
from tilewright.simulator.losses import Loss
from tilewright.simulator.templates.facet import Facet

RINGS = ("walk", "source_word", "result_ready", "result_port", "result_refusable")
"""`walk`: loop indices. `source_word`: where each source and, last, the destination is."""

RECORDS = {
    "vectors": record(
        *("sources", "slots", "first_access", "next_start"),
        *("active", "instruction", "iterations_left", "group_left", "granted", "result_head", "result_count"),
        *("newest_ready", "refusable_count", "can_issue"),
        "wait_cycles",  # until the first iteration of an instruction may ask
        places=("number", "requester", *(f"at_{name}" for name in RINGS)),
    )
}


class VectorFacet(Facet):
    """Sources are read while results wait to be written."""

    records = RECORDS

    def kind(self, engine: Engine) -> str:
        return "vectors"

    def settings(self, machine: Machine, engine: Engine) -> dict[str, int]:
        stages = timing.vec_operands(machine) + timing.vec_stages(machine, engine)
        slots = timing.vec_results(machine, engine) + stages + 1
        return {
            "sources": machine.vector_sources(engine),
            "slots": slots,
            "first_access": timing.first_access(machine.pipeline),
            "next_start": timing.next_start(machine.pipeline),
        }

    def rings(self, machine: Machine, engine: Engine) -> dict[str, NDArray[np.int64]]:
        loops = nest_depth(machine)
        sizes = dict.fromkeys(RINGS, self.settings(machine, engine)["slots"])
        sizes |= {"walk": loops, "source_word": machine.vector_sources(engine) + 1}
        return {name: np.zeros(size, np.int64) for name, size in sizes.items()}

    def requesters(self, machine: Machine, engine: Engine) -> int:
        return machine.vector_sources(engine)

    def loss(self, engine: Engine) -> Loss:
        return Loss.VECTOR

    def fill(self, rows: Rows) -> None:
        format, machine = rows.format, rows.machine
        for column, source in enumerate(rows.walk.streams):
            rows.fill_operand(column, source, rows.first_words[source.memory])
        first_word = rows.first_words[format.destination.memory]
        rows.fill_operand(machine.vector_sources(format.engine), format.destination, first_word)
        rows.table[:, SOURCES] = len(rows.walk.streams)
        rows.table[:, TO_WRITE] = timing.vec_write(format)
        rows.table[:, REFUSABLE] = timing.can_be_refused(machine, format)
        rows.table[:, RESULT_LIMIT] = timing.vec_result_limit(machine, format)
        rows.table[:, ITERATIONS] = rows.product(rows.trips)
        rows.table[:, GROUP] = rows.product(
            [trip for loop, trip in zip(rows.walk.loops, rows.trips, strict=True) if loop.is_reduce]
        )
