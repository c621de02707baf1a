"""What both DMA engines do: take an instruction into the address side, and stop at the first fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring

from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.delay import delayed
from tilewright.rtl.interfaces import takes_next
from tilewright.rtl.runs import Bursts


def build_dma_start(
    m: Module, engine: wiring.Component, bursts: Bursts, contexts: int, is_free: Value | None = None
) -> tuple[Signal, Signal]:
    """Take an instruction into the address side once that is done with the one before; at most `contexts` in hand.

    `is_free`: what else must be. Returns that one starts in this cycle, and how many are started and not retired.
    """
    start, started = Signal(name="start"), Signal(range(contexts + 1), name="started")
    is_addressed = takes_next(engine.engine, bursts.is_active, bursts.step & bursts.is_last)
    is_free = is_addressed if is_free is None else is_addressed & is_free
    m.d.comb += [
        engine.instruction.ready.eq(is_free & (started < contexts) & ~engine.halt),
        start.eq(engine.instruction.valid & engine.instruction.ready),
        bursts.start.eq(start),
        bursts.instruction.eq(engine.instruction.payload),
    ]
    m.d.sync += started.eq(started + start - engine.retire)
    return start, started


@dataclass(frozen=True, slots=True)
class FaultCause:
    """What makes a DMA engine stop: `holds` in a cycle in which it does, for an instruction and an address.

    The address stands still from then on.
    """

    code: FaultCode
    holds: Value
    instruction: Value
    address: Value | int = 0


def build_dma_fault(m: Module, engine: wiring.Component, bursts: Bursts, causes: Sequence[FaultCause]) -> None:
    """The first cause that holds is an engine's fault; the last of them is that the address side leaves a region."""
    region = FaultCause(FaultCode.REGION, bursts.fault, bursts.index, bursts.fault_address)
    causes = [*causes, region]
    stages = engine.engine.pipeline.halt
    holds = ~engine.halt & Cat(cause.holds for cause in causes).any()
    m.d.comb += engine.fault.valid.eq(delayed(m, holds, stages, "is_bad", reset_less=False))
    fault = engine.fault.payload
    for cause in reversed(causes):
        name = cause.code.name.lower()
        with m.If(delayed(m, cause.holds, stages, name)):
            m.d.comb += [
                fault.code.eq(cause.code),
                fault.instruction.eq(delayed(m, cause.instruction, stages, f"{name}_instruction")),
                fault.address.eq(cause.address),
            ]
