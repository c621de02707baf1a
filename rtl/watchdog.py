"""Tells when the bus has owed an answer for too long."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Watchdog(wiring.Component):
    """Counts the cycles, one after the other, in which the bus owes an answer on a port and does nothing there.

    `is_late` is set from the cycle in which they are `limit` until that of the bus's next move; never if that is 0.
    The limit stays as it is while an answer is owed.
    """

    def __init__(self) -> None:
        super().__init__({"limit": In(32), "is_owed": In(1), "is_late": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waited = Signal(32)
        with m.If(~self.is_owed):
            m.d.sync += waited.eq(0)
        with m.Elif(~self.is_late):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += self.is_late.eq((self.limit != 0) & (waited == self.limit))
        return m
