"""The data side of the DMA engines: the bytes of a burst's beats, and the window that turns one width into another."""

from __future__ import annotations

from collections.abc import Collection

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.timing import BURST_BEATS


class BurstBytes(data.StructLayout):
    """What the data side must know of a burst: how many bytes, and in which byte of its first beat they begin."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__(
            {
                "bytes": unsigned((BURST_BEATS * bus_bytes).bit_length()),
                "first_byte": unsigned((bus_bytes - 1).bit_length()),
            }
        )


class BeatCursor(wiring.Component):
    """The next beat of the burst at the head of a queue: where its bytes begin, how many, whether it is the last.

    `step` moves to the next beat; with the last one, to the next burst.
    """

    def __init__(self, bus_bytes: int) -> None:
        self.bus_bytes = bus_bytes
        super().__init__(
            {
                "burst": In(BurstBytes(bus_bytes)),
                "step": In(1),
                "first_byte": Out(range(bus_bytes)),
                "bytes": Out(range(bus_bytes + 1)),
                "is_last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        done = Signal.like(self.burst.bytes)
        left = self.burst.bytes - done
        room = self.bus_bytes - self.first_byte
        m.d.comb += [
            self.first_byte.eq(Mux(done == 0, self.burst.first_byte, 0)),
            self.is_last.eq(left <= room),
            self.bytes.eq(Mux(self.is_last, left, room)),
        ]
        with m.If(self.step):
            m.d.sync += done.eq(Mux(self.is_last, 0, done + self.bytes))
        return m


class Window(wiring.Component):
    """Bytes on their way from one width to another: `take` bytes leave at the front while `put` bytes join at the end.

    `data` holds `count` bytes, the oldest lowest, zeros above. `put_data` is zero above its `put` bytes. What its user
    promises makes the shifts smaller: to put at most `most_put` bytes, and to take none or as many as one of `takes`.
    """

    def __init__(self, capacity: int, most_put: int | None = None, takes: Collection[int] | None = None) -> None:
        self.capacity = capacity
        self.takes = takes
        most_put = capacity if most_put is None else most_put
        super().__init__(
            {
                "data": Out(8 * capacity),
                "count": Out(range(capacity + 1)),
                "take": In(range(capacity + 1)),
                "put": In(range(most_put + 1)),
                "put_data": In(8 * most_put),
                "room": Out(range(capacity + 1)),  # after this cycle's take
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal(range(self.capacity + 1))
        m.d.comb += [kept.eq(self.count - self.take), self.room.eq(self.capacity - kept)]
        joining = Mux(self.put != 0, self.put_data, 0) << (kept << 3)
        m.d.sync += [self.count.eq(kept + self.put), self.data.eq(self.build_rest(m) | joining)]
        return m

    def build_rest(self, m: Module) -> Value:
        """What stays when the oldest bytes leave."""
        if self.takes is None:
            return self.data >> (self.take << 3)
        rest = Signal.like(self.data, name="rest")
        m.d.comb += rest.eq(self.data)
        for count in self.takes:
            with m.If(self.take == count):
                m.d.comb += rest.eq(self.data >> 8 * count)
        return rest


def masked_bytes(value: Value, count: Value) -> Value:
    """The lowest `count` bytes of a value, zeros above."""
    everything = Const(-1, signed(1))
    return value & ~(everything << (count << 3))
