"""The data side of the DMA engines: the bytes of a burst's beats, and the window that turns one width into another."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.timing import BURST_BEATS, window_bytes
from tilewright.rtl.outline import outlined


class BurstBytes(data.StructLayout):
    """What the data side must know of a burst: the bytes of its first and last beat at its ends, and its last beat.

    In a form in which a beat's bytes are known without a sum over those before it.
    """

    def __init__(self, bus_bytes: int) -> None:
        place = unsigned((bus_bytes - 1).bit_length())
        beat = unsigned((BURST_BEATS - 1).bit_length())
        super().__init__({"first_byte": place, "last_byte": place, "last_beat": beat})


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
        beat = Signal.like(self.burst.last_beat, name="beat")
        last_byte = Mux(self.is_last, self.burst.last_byte, self.bus_bytes - 1)
        m.d.comb += [
            self.first_byte.eq(Mux(beat == 0, self.burst.first_byte, 0)),
            self.is_last.eq(beat == self.burst.last_beat),
            self.bytes.eq(last_byte - self.first_byte + 1),
        ]
        with m.If(self.step):
            m.d.sync += beat.eq(Mux(self.is_last, 0, beat + 1))
        return m


class Window(wiring.Component):
    """Bytes on their way from one width to another: first in, first out, in a ring of two beats.

    In a cycle with `takes`, the oldest `take` bytes leave. In one with `puts`, which needs `fits`, `put` bytes join,
    those of `put_data` from byte `put_first` on. `fits` says that there is room for `put` bytes after this cycle's
    take.
    Byte `data_first` + i of `data` is the i-th oldest, for all that are held and fit there; other bytes may be
    anything. `put_step`, a power of two, divides every `put` and `put_first`; `take_step` every `take` and
    `data_first`. The larger a step, the fewer places a byte can come from.

    Whether bytes leave and join may be known late in a cycle: what follows is worked out for both cases before.
    """

    def __init__(self, beat_bytes: int, put_step: int = 1, take_step: int = 1) -> None:
        self.beat_bytes = beat_bytes
        self.capacity = window_bytes(beat_bytes)
        self.put_step = put_step
        self.take_step = take_step
        first, some = range(beat_bytes), range(beat_bytes + 1)
        super().__init__(
            {
                "puts": In(1),
                "put": In(some),
                "put_first": In(first),
                "put_data": In(8 * beat_bytes),
                "takes": In(1),
                "take": In(some),
                "data_first": In(first),
                "data": Out(8 * beat_bytes),
                "count": Out(range(self.capacity + 1)),
                "fits": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        head, tail = Signal(range(self.capacity), name="head"), Signal(range(self.capacity), name="tail")
        with_put, less_take = self.count + self.put, self.count - self.take
        with_both = less_take + self.put
        m.d.comb += self.fits.eq(Mux(self.takes, with_both <= self.capacity, with_put <= self.capacity))
        with m.If(self.puts):
            m.d.sync += [self.count.eq(Mux(self.takes, with_both, with_put)), tail.eq(tail + self.put)]
        with m.Elif(self.takes):
            m.d.sync += self.count.eq(less_take)
        with m.If(self.takes):
            m.d.sync += head.eq(head + self.take)
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
                with m.If(self.puts & is_put & goes_here):
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
