"""The hardware of DMA engines: load and store."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import chip_operand
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.memory import Requester
from tilewright.rtl.templates.facet import Facet, MemoryPort


class DmaFacet(Facet):
    """A component for each direction; each has a port for every memory that its instructions name."""

    rank = 3
    stalls = {"port": Activity.STALL_PORT, "dram": Activity.STALL_DRAM}

    def reads(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        return self._ports(machine, engine, Direction.OUT, "read")

    def writes(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        return self._ports(machine, engine, Direction.IN, "write")

    def _ports(self, machine: Machine, engine: Engine, direction: Direction, what: str) -> Iterator[MemoryPort]:
        """Reads take turns with others; writes come in the order of engines."""
        formats = machine.formats_of(engine) if engine.dma.direction is direction else ()
        is_write = direction is Direction.IN
        for memory in dict.fromkeys(chip_operand(format).memory for format in formats):
            yield MemoryPort(engine, f"{what}_{memory}", memory, Requester(engine.name, is_privileged=is_write))
