"""The hardware of DMA engines: load and store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import chip_operand
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.memory import Requester
from tilewright.rtl.templates.facet import Facet, MemoryPort

if TYPE_CHECKING:
    from tilewright.rtl.proof.result import Subject


class DmaFacet(Facet):
    """A component for each direction; each has a port for every memory that its instructions name."""

    rank = 3
    stalls = {"port": Activity.STALL_PORT, "dram": Activity.STALL_DRAM}

    def component(self, machine: Machine, engine: Engine) -> Any:
        from tilewright.rtl.load import LoadEngine
        from tilewright.rtl.store import StoreEngine

        unit = LoadEngine if engine.dma.direction is Direction.IN else StoreEngine
        return unit(machine, engine)

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

    def proofs(self, machine: Machine, engine: Engine) -> Iterator[Subject]:
        from tilewright.rtl.proof.bursts import bursts_of
        from tilewright.rtl.proof.load import load_engine
        from tilewright.rtl.proof.store import store_engine

        yield bursts_of(machine, engine)
        yield load_engine(machine, engine) if engine.dma.direction is Direction.IN else store_engine(machine, engine)
