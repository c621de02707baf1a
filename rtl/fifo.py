"""First-in first-out queues of any depth: short ones in registers, long ones in a memory block of their own."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from tilewright.rtl.block import Block
from tilewright.rtl.outline import outlined

FEWEST_IN_BLOCK = 32
"""From this many entries on, a memory block is smaller than registers, on a chip as on an FPGA."""


def queue(shape: object, depth: int) -> Fifo | BlockFifo:
    """The smaller of both for a depth."""
    return Fifo(shape, depth) if depth < FEWEST_IN_BLOCK else BlockFifo(shape, depth)


class Fifo(wiring.Component):
    """Entries leave in the order in which they came; one written in cycle t can be read from t+1 on.

    `input` is ready while fewer than `depth` entries are held, not counting on a read in the same cycle.
    """

    def __init__(self, shape: object, depth: int) -> None:
        self.shape = shape
        self.depth = depth
        super().__init__(_members(shape, depth))

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if self.depth == 1:
            build_one_entry(m, self)
            return m
        m.submodules.entries = entries = Memory(shape=self.shape, depth=self.depth, init=[])
        write = entries.write_port()
        read = entries.read_port(transparent_for=(write,))
        put, head, next_head = build_pointers(m, self, write)
        m.d.comb += [read.addr.eq(next_head), self.output.payload.eq(read.data)]
        return m


class ShownFifo(Fifo):
    """A `Fifo` whose oldest entry is in a register, so that it is there when the cycle begins."""

    def elaborate(self, platform: object) -> Elaboratable:
        if self.depth == 1:
            return super().elaborate(platform)
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.entries = entries = Memory(shape=self.shape, depth=self.depth, init=[])
        write, second = entries.write_port(), entries.read_port(domain="comb")
        _, head, _ = build_pointers(m, self, write)
        oldest = Signal(self.shape, name="oldest", reset_less=True)
        m.d.comb += [second.addr.eq(_after(head, self.depth)), self.output.payload.eq(oldest)]
        with m.If(self.output.ready & (self.level > 1)):
            m.d.sync += oldest.eq(second.data)
        with m.Elif(self.output.ready | ~self.output.valid):
            m.d.sync += oldest.eq(self.input.payload)
        return m


class BlockFifo(wiring.Component):
    """As `Fifo`, with its entries in a memory block, which shows a write to no read of the same cycle.

    An entry that is the oldest in the cycle after it came is shown from a register instead.
    """

    def __init__(self, shape: object, depth: int) -> None:
        self.shape = shape
        self.depth = depth
        super().__init__(_members(shape, depth))

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.entries = entries = Block(shape=self.shape, depth=self.depth, init=[])
        write, read = entries.write_port(), entries.read_port()
        put, head, next_head = build_pointers(m, self, write)
        is_new, newest = Signal(name="is_new"), Signal(self.shape, name="newest", reset_less=True)
        m.d.comb += [read.addr.eq(next_head), self.output.payload.eq(Mux(is_new, newest, read.data))]
        m.d.sync += [is_new.eq(put & (write.addr == next_head)), newest.eq(self.input.payload)]
        return m


def build_one_entry(m: Module, fifo: Fifo) -> None:
    """A queue of one entry is a register: a memory of one word has an address without bits."""
    entry = Signal(fifo.shape, name="entry", reset_less=True)
    put, taken = fifo.input.valid & ~fifo.level, fifo.output.ready & fifo.level
    m.d.comb += [
        fifo.input.ready.eq(~fifo.level),
        fifo.output.valid.eq(fifo.level),
        fifo.output.payload.eq(entry),
    ]
    m.d.sync += fifo.level.eq(fifo.level + put - taken)
    with m.If(put):
        m.d.sync += entry.eq(fifo.input.payload)


def _members(shape: object, depth: int) -> dict[str, In | Out]:
    return {
        "input": In(stream.Signature(shape)),
        "output": Out(stream.Signature(shape)),
        "level": Out(range(depth + 1)),  # entries held
    }


def build_pointers(m: Module, fifo: Fifo | BlockFifo, write: WritePort) -> tuple[Signal, Signal, Value]:
    """Count entries and write what comes; returns that one comes, and where the oldest is, now and in the next one."""
    tail, head = Signal(range(fifo.depth), name="tail"), Signal(range(fifo.depth), name="head")
    put, taken = Signal(name="put"), Signal(name="taken")
    next_head = Mux(taken, _after(head, fifo.depth), head)  # the entry that is the oldest in the next cycle
    m.d.comb += [
        fifo.input.ready.eq(fifo.level < fifo.depth),
        fifo.output.valid.eq(fifo.level > 0),
        put.eq(fifo.input.valid & fifo.input.ready),
        taken.eq(fifo.output.valid & fifo.output.ready),
        write.addr.eq(tail),
        write.data.eq(fifo.input.payload),
        write.en.eq(put),
    ]
    m.d.sync += [head.eq(next_head), fifo.level.eq(fifo.level + put - taken)]
    with m.If(put):
        m.d.sync += tail.eq(_after(tail, fifo.depth))
    return put, head, next_head


def _after(pointer: Signal, depth: int) -> Value:
    return Mux(pointer == depth - 1, 0, pointer + 1)
