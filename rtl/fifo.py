"""A first-in first-out queue of any depth, whose entries wait in a memory block."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tilewright.rtl.outline import outlined


class Fifo(wiring.Component):
    """Entries leave in the order in which they came; one written in cycle t can be read from t+1 on.

    `input` is ready while fewer than `depth` entries are held, not counting on a read in the same cycle.
    """

    def __init__(self, shape: object, depth: int) -> None:
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "input": In(stream.Signature(shape)),
                "output": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),  # entries held
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.entries = entries = Memory(shape=self.shape, depth=self.depth, init=[])
        write = entries.write_port()
        read = entries.read_port(transparent_for=(write,))
        tail, head = Signal(range(self.depth)), Signal(range(self.depth))
        put, taken = Signal(), Signal()
        m.d.comb += [
            self.input.ready.eq(self.level < self.depth),
            self.output.valid.eq(self.level > 0),
            put.eq(self.input.valid & self.input.ready),
            taken.eq(self.output.valid & self.output.ready),
            write.addr.eq(tail),
            write.data.eq(self.input.payload),
            write.en.eq(put),
            read.addr.eq(Mux(taken, self.after(head), head)),  # the entry that is the oldest in the next cycle
            self.output.payload.eq(read.data),
        ]
        m.d.sync += [head.eq(read.addr), self.level.eq(self.level + put - taken)]
        with m.If(put):
            m.d.sync += tail.eq(self.after(tail))
        return m

    def after(self, pointer: Signal) -> Mux:
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
