"""Fetch: reads the program region ahead of dispatch, burst by burst."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES, program_unit_bytes
from tilewright.rtl.assembler import ProgramBeat
from tilewright.rtl.bus import ADDRESS_BITS, BurstRequest, ReadBeatSignature
from tilewright.rtl.fifo import queue
from tilewright.rtl.outline import outlined


class Fetch(wiring.Component):
    """Reads the beats from `base` (4 KiB aligned) to `limit` bytes after it, once, and gives them in order.

    The last beat may have units behind the program's end, which do not count. A burst is asked for when the buffer has
    room for all of it, so beats are always accepted. `is_finished`: every beat of the program was given. While `halt`
    is set, no burst is asked for and no beat given. A run begins with the end of a halt, and base and limit stay as
    they were in its last cycle.
    """

    def __init__(self, machine: Machine) -> None:
        self.bus_bytes = machine.dram.bus_bytes
        self.buffer_beats = machine.fetch_beats
        self.limit_bits = machine.dram.offset_bits + 1
        self.unit_bytes = program_unit_bytes(self.bus_bytes)
        super().__init__(
            {
                "base": In(ADDRESS_BITS),
                "limit": In(self.limit_bits),
                "halt": In(1),
                "request": Out(stream.Signature(BurstRequest())),
                "beat": In(ReadBeatSignature(self.bus_bytes)),
                "output": Out(stream.Signature(ProgramBeat(machine))),
                "is_finished": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.buffer = buffer = queue(unsigned(8 * self.bus_bytes), self.buffer_beats)
        beat_shift = _shift(self.bus_bytes)
        asked = Signal(self.limit_bits)  # beats, as the next three
        beats_left = Signal(self.limit_bits, reset_less=True)  # not asked for yet
        free = Signal(range(self.buffer_beats + 1), init=self.buffer_beats)  # neither held nor on their way
        burst = Signal(range(BURST_BEATS + 1), reset_less=True)
        has_error, before_error = Signal(), Signal(range(self.buffer_beats + 1))
        granted, taken = Signal(), Signal()
        offset, page = asked << beat_shift, bits_for(BURST_BOUNDARY_BYTES - 1)  # the base is that of a page
        m.d.comb += [
            self.request.valid.eq(~self.halt & (burst > 0) & (burst <= free)),
            self.request.payload.address.eq(Cat(offset[:page], self.base[page:] + offset[page:])),
            self.request.payload.last_beat.eq(burst - 1),
            granted.eq(self.request.valid & self.request.ready),
            buffer.input.valid.eq(self.beat.valid),
            buffer.input.payload.eq(self.beat.payload.data),
            self.output.valid.eq(buffer.output.valid & ~self.halt),
            self.output.payload.data.eq(buffer.output.payload),
            self.output.payload.units.eq(self.units_of_beat((burst == 0) & (free == self.buffer_beats - 1))),
            self.output.payload.error.eq(has_error & (before_error == 0)),
            buffer.output.ready.eq(self.output.ready & ~self.halt),
            taken.eq(self.output.valid & self.output.ready),
            self.is_finished.eq((burst == 0) & (free == self.buffer_beats)),
        ]
        self.build_error(m, buffer.level - taken, taken, has_error, before_error)
        m.d.sync += free.eq(free + taken - Mux(granted, burst, 0))
        with m.If(granted):
            m.d.sync += asked.eq(asked + burst)
        self.build_burst(m, burst, beats_left, granted)
        return m

    def beats_of_program(self) -> Value:
        """All beats, the last one perhaps with bytes behind the program's end."""
        shift = _shift(self.bus_bytes)
        return ((self.limit >> shift) + self.limit[:shift].any())[: self.limit_bits]

    def units_of_beat(self, is_last: Value) -> Value:
        """The units of the next beat that are the program's."""
        end = self.limit[: _shift(self.bus_bytes)]
        return Mux(is_last & end.any(), end >> _shift(self.unit_bytes), self.bus_bytes // self.unit_bytes)

    def build_burst(self, m: Module, burst: Signal, beats_left: Signal, granted: Value) -> None:
        """The beats of the next burst. While halted, they follow the limit, so that a run begins with its first one.

        Where one follows, the current burst is of BURST_BEATS: what is left after it has the same lower bits.
        """
        full, part = beats_left >> bits_for(BURST_BEATS - 1), beats_left[: bits_for(BURST_BEATS - 1)]
        limit = self.beats_of_program()
        with m.If(self.halt):
            m.d.sync += [burst.eq(Mux(limit < BURST_BEATS, limit, BURST_BEATS)), beats_left.eq(limit)]
        with m.Elif(granted):
            m.d.sync += burst.eq(Mux(full == 0, 0, Mux(full == 1, part, BURST_BEATS)))
            m.d.sync += beats_left.eq(beats_left - burst)

    def build_error(self, m: Module, left: Value, taken: Signal, has_error: Signal, before_error: Signal) -> None:
        """Count the beats before the first one that the bus reported an error for: it ends the run, whatever follows.

        `left`: the beats that stay in the buffer in this cycle.
        """
        with m.If(self.beat.valid & self.beat.payload.error & ~has_error):
            m.d.sync += [has_error.eq(1), before_error.eq(left)]
        with m.Elif(taken & (before_error != 0)):
            m.d.sync += before_error.eq(before_error - 1)


def _shift(power: int) -> int:
    return power.bit_length() - 1
