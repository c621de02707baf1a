"""The hardware of systolic arrays."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.memory import Requester
from tilewright.rtl.templates.facet import Facet, MemoryPort


class SystolicFacet(Facet):
    """The array's sums and weights always win; it reaches the same memories with all of its instructions."""

    rank = 0
    stalls = {"port": Activity.STALL_PORT, "weights": Activity.STALL_WEIGHTS}

    def reads(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        for format in machine.formats_of(engine)[:1]:
            a, w, c = systolic_activations(format), systolic_weights(format), format.destination
            block = max(_blocks(machine, engine))
            yield MemoryPort(engine, "c_read", c.memory, Requester(f"{engine}_c", block, is_privileged=True))
            yield MemoryPort(engine, "w", w.memory, Requester(f"{engine}_w", is_privileged=True))  # row by row
            yield MemoryPort(engine, "a", a.memory, Requester(f"{engine}_a", a.block))

    def writes(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        for format in machine.formats_of(engine)[:1]:
            blocks = _blocks(machine, engine)
            requester = Requester(f"{engine}_c", max(blocks), is_privileged=True, has_mask=len(blocks) > 1)
            yield MemoryPort(engine, "c_write", format.destination.memory, requester)


def _blocks(machine: Machine, engine: Engine) -> set[int]:
    """How many words of sums an instruction moves at once."""
    return {format.destination.block for format in machine.formats_of(engine)}
