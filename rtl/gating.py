"""Registers that are written only while something is in flight, so that synthesis can stop their clock in between.

The hardware says when, as an enable. A chip gets a clock gate for each of them (`codesign/price/clock_gates.py`), an
FPGA uses the enables that its flip-flops have, and a simulator sees nothing but registers that keep their value.
"""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Elaboratable, EnableInserter, Module, Signal, Value

from tilewright.isa.machine.machine import Machine

CLOCK = "sync"

PAYLOAD = "payload"
"""The domain of an engine's registers that hold something only while it has something in flight."""


def payload_domain(machine: Machine) -> str:
    """The domain of such registers: without clock gating, that of all others."""
    return PAYLOAD if machine.has_gated_clocks else CLOCK


def with_payload(machine: Machine, part: Elaboratable) -> Elaboratable:
    """A part of an engine, all of whose registers are such."""
    return DomainRenamer(PAYLOAD)(part) if machine.has_gated_clocks else part


def clocked_when(machine: Machine, m: Module, writes: Value) -> Elaboratable:
    """A unit no register of which changes but in the cycles in which it `writes`."""
    return EnableInserter(writes)(m) if machine.has_gated_clocks else m


def clocked_in_flight(machine: Machine, m: Module, enters: Value, cycles: int) -> Elaboratable:
    """An engine whose payload is written from the cycle in which something `enters` to so many cycles later."""
    if not machine.has_gated_clocks:
        return m
    left, is_in_flight = Signal(range(cycles + 1), name="cycles_in_flight"), Signal(name="is_in_flight")
    m.d.comb += is_in_flight.eq(enters | (left != 0))
    with m.If(enters):
        m.d.sync += left.eq(cycles)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    return DomainRenamer({PAYLOAD: CLOCK})(EnableInserter({PAYLOAD: is_in_flight})(m))
