"""The data side of the DMA engines: the bytes of a burst's beats, and the window that turns one width into another."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.timing import BURST_BEATS, window_bytes


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
    """Bytes on their way from one width to another: first in, first out, in a ring of two beats.

    `put` bytes join in a cycle, those of `put_data` from byte `put_first` on; `take` bytes leave, the oldest first.
    Byte `data_first` + i of `data` is the i-th oldest, for all that are held and fit there; other bytes may be
    anything. `put_step`, a power of two, divides every `put` and `put_first`; `take_step` every `take` and
    `data_first`. The larger a step, the fewer places a byte can come from.
    """

    def __init__(self, beat_bytes: int, put_step: int = 1, take_step: int = 1) -> None:
        self.beat_bytes = beat_bytes
        self.capacity = window_bytes(beat_bytes)
        self.put_step = put_step
        self.take_step = take_step
        first, some = range(beat_bytes), range(beat_bytes + 1)
        super().__init__(
            {
                "put": In(some),
                "put_first": In(first),
                "put_data": In(8 * beat_bytes),
                "take": In(some),
                "data_first": In(first),
                "data": Out(8 * beat_bytes),
                "count": Out(range(self.capacity + 1)),
                "room": Out(range(self.capacity + 1)),  # after this cycle's take
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal.like(self.count, name="kept")
        head, tail = Signal(range(self.capacity), name="head"), Signal(range(self.capacity), name="tail")
        m.d.comb += [kept.eq(self.count - self.take), self.room.eq(self.capacity - kept)]
        m.d.sync += [self.count.eq(kept + self.put), head.eq(head + self.take), tail.eq(tail + self.put)]
        low, high = (
            [Signal(8, name=f"{half}_{place}", reset_less=True) for place in range(self.capacity // 2)]
            for half in ("low", "high")
        )
        self.build_put(m, low, high, tail)
        self.build_data(m, low, high, head)
        return m

    def build_put(self, m: Module, low: Sequence[Signal], high: Sequence[Signal], tail: Signal) -> None:
        """What joins goes to the places from the tail on; each byte has one in either half of the ring."""
        log, step = _log(self.put_step), self.put_step
        first_unit, is_high = tail[log:-1], tail[-1]
        by = (first_unit - self.put_first[log:])[: len(first_unit)]
        turned = rotated(m, self.put_data, by, 8 * step, "turned")
        units = Cat((self.put >> log) > n for n in range(self.beat_bytes // step))
        joins = rotated(m, units, first_unit, 1, "joins")
        for n, is_put in enumerate(joins):
            goes_high = is_high ^ is_below(n, first_unit)
            for half, goes_here in ((low, ~goes_high), (high, goes_high)):
                with m.If(is_put & goes_here):
                    m.d.sync += [half[i].eq(turned.word_select(i, 8)) for i in range(step * n, step * n + step)]

    def build_data(self, m: Module, low: Sequence[Signal], high: Sequence[Signal], head: Signal) -> None:
        """Of both halves of the ring, what is behind the head, turned to where it is wanted."""
        log, step = _log(self.take_step), self.take_step
        start = (head[log:] - self.data_first[log:])[: len(head) - log]
        first_unit, is_high = start[:-1], start[-1]
        oldest = Signal(8 * self.beat_bytes, name="oldest")
        for i in range(self.beat_bytes):
            comes_high = is_high ^ is_below(i // step, first_unit)
            m.d.comb += oldest.word_select(i, 8).eq(Mux(comes_high, high[i], low[i]))
        m.d.comb += self.data.eq(rotated(m, oldest, first_unit, -8 * step, "shown"))


def rotated(m: Module, value: Value, by: Value, unit: int, name: str) -> Value:
    """A value with each bit moved up by `by` * `unit` bits, cyclically; down if `unit` is negative."""
    for position, bit in enumerate(by):
        moved = Signal(len(value), name=f"{name}_{position}")
        m.d.comb += moved.eq(Mux(bit, value.rotate_left(unit << position), value))
        value = moved
    return value


def is_below(number: int, value: Value) -> Value:
    """Whether a number is less than a value; nothing is compared where the value cannot be larger."""
    return value > number if number < (1 << len(value)) - 1 else Const(0, 1)


def part_step(word_sizes: Collection[int], beat_bytes: int) -> int:
    """What divides the parts that words of these sizes are moved in: those of a beat's size, and the last ones."""
    return math.gcd(beat_bytes, *word_sizes)


def _log(power: int) -> int:
    return power.bit_length() - 1
