"""The vector engine's results between the end of the datapath and the memories' write ports, in order."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tilewright.rtl.outline import outlined


class ResultQueue(wiring.Component):
    """Holds what could not be written at once: `valid` and `oldest` are the oldest result, until the cycle of `taken`.

    A result that comes in (`arrives`, `result`) is the oldest in the same cycle if none waits. The user keeps the
    number of results that wait within `capacity`, which may be 0.
    """

    def __init__(self, shape: Shape, capacity: int) -> None:
        self.capacity = 1 << ceil_log2(capacity) if capacity else 0
        super().__init__(
            {
                "arrives": In(1),
                "result": In(shape),
                "valid": Out(1),
                "oldest": Out(shape),
                "taken": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if not self.capacity:
            m.d.comb += [self.valid.eq(self.arrives), self.oldest.eq(self.result)]
            return m
        m.submodules.waiting = waiting = Memory(shape=self.result.shape(), depth=self.capacity, init=[])
        enter, leave = waiting.write_port(), waiting.read_port(domain="comb")
        level = Signal(range(self.capacity + 1))
        is_waiting = Signal()
        m.d.comb += [
            is_waiting.eq(level != 0),
            self.valid.eq(is_waiting | self.arrives),
            self.oldest.eq(Mux(is_waiting, leave.data, self.result)),
            enter.data.eq(self.result),
            enter.en.eq(self.arrives & (is_waiting | ~self.taken)),
        ]
        m.d.sync += level.eq(level + self.arrives - self.taken)
        with m.If(enter.en):
            m.d.sync += enter.addr.eq(enter.addr + 1)
        with m.If(self.taken & is_waiting):
            m.d.sync += leave.addr.eq(leave.addr + 1)
        return m
