"""What is proved of an engine at a machine's own sizes, by its template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.proof.bursts import bursts_of
from tilewright.rtl.proof.load import load_engine
from tilewright.rtl.proof.mma import mma_engine
from tilewright.rtl.proof.nest import vector_addresses
from tilewright.rtl.proof.nest_ahead import vector_iterations
from tilewright.rtl.proof.result import Subject
from tilewright.rtl.proof.store import store_engine
from tilewright.rtl.proof.vector import joined_parts, kept_elements


def subjects_of(machine: Machine, engine: Engine) -> Iterator[Subject]:
    """The hardware of an engine, a part at a time, and what is claimed of each."""
    match engine.template:
        case Template.DMA:
            yield bursts_of(machine, engine)
            of_direction = load_engine if engine.dma.direction is Direction.IN else store_engine
            yield of_direction(machine, engine)
        case Template.SYSTOLIC:
            if machine.formats_of(engine):
                yield mma_engine(machine, engine)
        case Template.VECTOR:
            yield from _of_vector(machine, engine)
        case _ as never:
            assert_never(never)


def _of_vector(machine: Machine, engine: Engine) -> Iterator[Subject]:
    formats = machine.formats_of(engine)
    if formats:
        yield vector_iterations(machine, engine) if engine.pipeline.check else vector_addresses(machine, engine)
    if engine.vector.parts > 1 or any(format.statement.dot is not None for format in formats):
        yield kept_elements(machine, engine)
    if engine.vector.parts > 1:
        yield joined_parts(machine, engine)
