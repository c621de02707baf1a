"""A DMA engine in the cycle model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing
from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import chip_operand, dram_operand
from tilewright.simulator.kernel.layout import (
    DMA_BYTE,
    DMA_WORD,
    FIRST_INNER,
    ITERATIONS,
    RUN_BYTES,
    WORD_BYTES,
    Rows,
    nest_depth,
    record,
)
from tilewright.simulator.losses import Loss
from tilewright.simulator.regions import region
from tilewright.simulator.templates.facet import Facet

RINGS = ("bytes", "words", "burst_bytes", "burst_first", "burst_last", "part_ready", "part_size")
"""`bytes` and `words` are loop indices: of the address side, and of what comes from memories or goes there."""

PLACES = ("number", "requester", *(f"at_{name}" for name in RINGS))

SHARED = (
    *("contexts", "bursts", "beats", "read", "port", "next_start"),
    *("active", "instruction", "run_left", "run_at", "run_start", "burst_head", "burst_count", "window"),
    *("word", "of_word"),  # of_word: bytes of the word that have been moved
)

RECORDS = {
    "loads": record(
        *SHARED,
        *("asked", "buffer", "is_full", "packed", "words_left", "writer_held", "writer_port", "writer_last"),
        places=PLACES,
    ),
    "stores": record(
        *SHARED,
        *("reader_active", "reader_instruction", "part_head", "part_count", "first_access"),
        "wait_cycles",  # until the first word of an instruction may be asked for
        places=PLACES,
    ),
}


class DmaFacet(Facet):
    """One side walks in DRAM, the other on chip."""

    records = RECORDS

    def kind(self, engine: Engine) -> str:
        return "stores" if engine.dma.direction is Direction.OUT else "loads"

    def settings(self, machine: Machine, engine: Engine) -> dict[str, int]:
        own = engine.dma
        return {
            "contexts": own.contexts,
            "bursts": own.bursts,
            "beats": own.beats,
            "read": timing.store_read(machine),
            "port": own.port,
            "next_start": timing.next_start(machine.pipeline),
            **({"first_access": timing.first_access(machine.pipeline)} if own.direction is Direction.OUT else {}),
        }

    def rings(self, machine: Machine, engine: Engine) -> dict[str, NDArray[np.int64]]:
        loops = nest_depth(machine)
        sizes = dict.fromkeys(RINGS, engine.dma.bursts) | dict.fromkeys(("bytes", "words"), loops)
        sizes |= dict.fromkeys(("part_ready", "part_size"), engine.dma.beats)
        return {name: np.zeros(size, np.int64) for name, size in sizes.items()}

    def requesters(self, machine: Machine, engine: Engine) -> int:
        return int(engine.dma.direction is Direction.OUT)

    def loss(self, engine: Engine) -> Loss:
        return Loss.STORE if engine.dma.direction is Direction.OUT else Loss.LOAD

    def fill(self, rows: Rows) -> None:
        """Runs of contiguous words are the innermost loop, so the address side has one loop less to walk."""
        outer, on_chip = dram_operand(rows.format), chip_operand(rows.format)
        word_bytes = rows.machine.memories[on_chip.memory].word_bytes
        strides = rows.strides(outer, rows.format.loops[-1].name)
        for is_contiguous in (False, True):
            chosen = np.flatnonzero((strides == word_bytes) == is_contiguous)
            some = replace(rows, values=rows.values[chosen], table=rows.table[chosen])
            walked = len(some.trips) - is_contiguous
            numbers = some.field(f"{outer.name}.region")
            starts = np.array([region(rows.regions, number).base for number in numbers], object)
            some.fill_operand(DMA_WORD, on_chip, rows.first_words[on_chip.memory])
            some.fill_operand(DMA_BYTE, outer, starts, walked)
            some.table[:, ITERATIONS] = some.product(some.trips)
            some.table[:, RUN_BYTES] = word_bytes * (some.trips[-1] if is_contiguous else 1)
            some.table[:, FIRST_INNER] = some.loops - len(some.trips) + walked
            some.table[:, WORD_BYTES] = word_bytes
            rows.table[chosen] = some.table
