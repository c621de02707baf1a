"""The address side of the DMA engines: an instruction's bytes in DRAM as contiguous runs, cut into checked bursts."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.templates.dma import dram_operand, moved_word_bytes
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.beats import BurstBytes
from tilewright.rtl.bus import ADDRESS_BITS, BurstRequest
from tilewright.rtl.interfaces import FAULT_ADDRESS_BITS, StartedInstruction, index_bits
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.nest import FormatWalk, NestWalker
from tilewright.rtl.outline import outlined

PAGE_BITS = bits_for(BURST_BOUNDARY_BYTES - 1)
"""Of an offset in a page: bursts stay in theirs, and bases of regions are those of pages."""


class RegionTable(data.StructLayout):
    """Base (4 KiB aligned) and limit of every region, as the host set them."""

    def __init__(self, machine: Machine) -> None:
        limit = unsigned(machine.dram.offset_bits + 1)
        region = data.StructLayout({"base": unsigned(ADDRESS_BITS), "limit": limit})
        super().__init__({name: region for name in REGIONS})


class Bursts(wiring.Component):
    """Cuts the DRAM side of an instruction into bursts as `first_burst` does, and checks each against its region.

    In a cycle with `start`, `instruction` is taken, which may be when none is active or with the step of the last
    burst; from the next cycle on its first burst is current, and the next one after each `step`. The instruction is
    over with the step of the burst that `is_last`. An outside burst sets `fault`, with `fault_address` the first byte
    outside, and must not be used. `regions` stay as they are from a start to the end of its instruction.

    The current burst stands in registers. What follows it is worked out while it waits: a step only takes it.
    """

    def __init__(self, machine: Machine, formats: Sequence[InstructionFormat]) -> None:
        self.machine = machine
        self.formats = tuple(formats)
        self.bus_bytes = machine.dram.bus_bytes
        self.beat_shift = (self.bus_bytes - 1).bit_length()
        self.run_bits = max(
            (moved_word_bytes(f, machine) << (f.loops[-1].bits if f.loops else 0)).bit_length() for f in formats
        )
        walks = [FormatWalk(f, f.loops, {"run": dram_operand(f)}) for f in self.formats]
        self.walker = NestWalker(machine, walks)
        super().__init__(
            {
                "regions": In(RegionTable(machine)),
                "instruction": In(StartedInstruction(machine)),
                "start": In(1),
                "step": In(1),
                "is_active": Out(1),
                "request": Out(BurstRequest()),
                "beats": Out(range(BURST_BEATS + 1)),
                "bytes": Out(BurstBytes(self.bus_bytes)),
                "index": Out(index_bits(machine)),  # of the instruction
                "is_last": Out(1),
                "fault": Out(1),
                "fault_address": Out(signed(FAULT_ADDRESS_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.walker = walker = self.walker
        ends_run = Signal(name="ends_run")
        m.d.comb += [self.is_last.eq(ends_run & walker.last), walker.step.eq(self.step & ends_run)]
        with m.If(self.step & self.is_last):
            m.d.sync += self.is_active.eq(0)
        with m.If(self.start):
            m.d.sync += [self.is_active.eq(1), self.index.eq(self.instruction.index)]
        self.build_next(m, walker, ends_run)
        return m

    def build_next(self, m: Module, walker: NestWalker, ends_run: Signal) -> None:
        """The registers of the current burst, and what follows it: in its run, in the next run, in an instruction.

        `left` are the bytes of the run from `offset` on. When no instruction is active, the registers follow the one
        that is offered, so that its start has nothing else to do.
        """
        offset = Signal(signed(walker.slot_shape("run").width + 1), name="offset")
        left, run_bytes = Signal(self.run_bits, name="left"), Signal(self.run_bits, name="run_bytes")
        region = Signal(range(max(len(REGIONS), 1 << self.region_bits)), name="region")
        limit = Signal(self.machine.dram.offset_bits + 1, name="limit")
        size = Signal(range(BURST_BEATS * self.bus_bytes + 1), name="size")

        first, first_run, first_region = self.build_start(m, walker)
        first_limit = self.of_region(m, first_region, "limit")
        offset_next, left_next, limit_next = Signal.like(offset), Signal.like(left), Signal.like(limit)
        m.d.comb += limit_next.eq(limit)
        with m.If(~self.is_active | self.is_last):
            m.d.comb += [offset_next.eq(first), left_next.eq(first_run), limit_next.eq(first_limit)]
        with m.Elif(ends_run):
            m.d.comb += [offset_next.eq(walker.following["run"]), left_next.eq(run_bytes)]
        with m.Else():
            m.d.comb += [offset_next.eq(offset + size), left_next.eq(left - size)]
        moves = self.step | ~self.is_active
        with m.If(moves):
            m.d.sync += [offset.eq(offset_next), left.eq(left_next), limit.eq(limit_next)]
        with m.If(~self.is_active | (self.step & self.is_last)):
            m.d.sync += [run_bytes.eq(first_run), region.eq(first_region)]
        self.build_size(m, moves, offset_next, left_next, size, ends_run)
        starts_outside = self.build_check(m, moves, offset_next, limit_next, size)
        pages = self.build_pages(m, self.of_region(m, region, "base")[PAGE_BITS:], offset >> PAGE_BITS)
        m.d.comb += [
            self.bytes.first_byte.eq(offset[: self.beat_shift]),
            self.bytes.last_byte.eq((offset[: self.beat_shift] + size[: self.beat_shift] - 1)[: self.beat_shift]),
            self.bytes.last_beat.eq(self.beats - 1),
            self.request.address.eq(Cat(offset[:PAGE_BITS], pages)),
            self.request.last_beat.eq(self.beats - 1),
            # A burst stays in its page: if the limit is inside the burst, it differs in the lower bits alone.
            self.fault_address.eq(Cat(Mux(starts_outside, offset[:PAGE_BITS], limit[:PAGE_BITS]), pages)),
        ]

    def build_pages(self, m: Module, base: Value, page: Value) -> Signal:
        """The page of an address: that of its base, and the signed one of its offset, which has fewer bits.

        What is above these is ready before their sum: one more, or one less, or as it is.
        """
        split = len(page) - 1
        low, moved = Signal(split + 1, name="pages_low"), Signal(len(base) - split, name="pages_moved")
        pages = Signal(len(base), name="pages")
        m.d.comb += [
            low.eq(base[:split] + page[:split]),
            moved.eq(base[split:] + Mux(page[-1], -1, 1)),
            pages.eq(Cat(low[:split], Mux(low[-1] ^ page[-1], moved, base[split:]))),
        ]
        return pages

    @property
    def region_bits(self) -> int:
        return max(f.field(f"{dram_operand(f).name}.region").type.bits for f in self.formats)

    def build_start(self, m: Module, walker: NestWalker) -> tuple[Signal, Signal, Signal]:
        """Hand the nest to the walker, its innermost loop folded into the run when its words follow each other.

        Returns the first byte of the first run, the bytes of a run, and the region, of the instruction at the input.
        """
        bits = self.instruction.bits
        m.d.comb += [walker.bits.eq(bits), walker.start.eq(self.start)]
        first = Signal(walker.slot_shape("run"), name="first")
        run_bytes, region = Signal(self.run_bits, name="first_run"), Signal(self.region_bits, name="first_region")
        with m.Switch(instruction_view(self.formats[0], bits)[OPCODE]):
            for format in self.formats:
                with m.Case(format.opcode):
                    view, operand = instruction_view(format, bits), dram_operand(format)
                    word_bytes = moved_word_bytes(format, self.machine)
                    m.d.comb += [
                        first.eq(view[f"{operand.name}.base"]),
                        region.eq(view[f"{operand.name}.region"]),
                        run_bytes.eq(word_bytes),
                    ]
                    if format.loops and format.loops[-1].name in operand.loops:
                        innermost = format.loops[-1].name
                        with m.If(view[f"{operand.name}.{innermost}"] == word_bytes):
                            trips = view[f"trip.{innermost}"] + 1
                            m.d.comb += [walker.collapse.eq(1), run_bytes.eq(trips * word_bytes)]
        return first, run_bytes, region

    def of_region(self, m: Module, region: Value, member: str) -> Signal:
        """Base or limit of a region; a number that names no region has the limit 0."""
        found = Signal.like(getattr(self.regions[REGIONS[0]], member), name=f"{region.name}_{member}")
        with m.Switch(region):
            for number, name in enumerate(REGIONS):
                with m.Case(number):
                    m.d.comb += found.eq(getattr(self.regions[name], member))
        return found

    def build_size(self, m: Module, moves: Value, offset: Value, left: Value, size: Signal, ends_run: Signal) -> None:
        """Registers of the size of the burst that is next, from `offset` on, of a run of which `left` bytes are left.

        The longest burst ends BURST_BEATS beats after the one in which it begins, or in the last of these beats in a
        page at the end of the page: the lengths are powers of two.
        """
        longest = BURST_BEATS * self.bus_bytes
        first_byte, frame = offset[: self.beat_shift], bits_for(longest - 1)
        before = Mux(offset[frame:PAGE_BITS].all(), offset[:frame], first_byte)
        is_end = left + before <= longest
        last_beats = (first_byte + left + self.bus_bytes - 1) >> self.beat_shift
        with m.If(moves):
            m.d.sync += [
                ends_run.eq(is_end),
                size.eq(Mux(is_end, left, longest - before)),
                self.beats.eq(Mux(is_end, last_beats, BURST_BEATS - (before >> self.beat_shift))),
            ]

    def build_check(self, m: Module, moves: Value, offset: Value, limit: Value, size: Signal) -> Signal:
        """Whether the current burst leaves its region; most of it is known a cycle before it, by pages.

        In a page before the limit's, a burst is inside, since it stays in its page. In the limit's page, `room` are
        the bytes to the limit. Returns whether the first byte is outside.
        """
        is_before, is_at = Signal(name="is_before"), Signal(name="is_at")
        room, starts_outside = Signal(signed(PAGE_BITS + 1), name="room"), Signal(name="starts_outside")
        page, last_page = offset >> PAGE_BITS, limit >> PAGE_BITS
        with m.If(moves):
            m.d.sync += [
                is_before.eq((page < last_page) & ~offset[-1]),
                is_at.eq(page == last_page),
                room.eq(limit[:PAGE_BITS] - offset[:PAGE_BITS]),
            ]
        m.d.comb += [
            starts_outside.eq(~is_before & ~(is_at & (room > 0))),
            self.fault.eq(self.is_active & ~is_before & ~(is_at & (room >= size))),
        ]
        return starts_outside
