"""The address side of the DMA engines: an instruction's bytes in DRAM as contiguous runs, cut into checked bursts."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.beats import BurstBytes
from tilewright.rtl.bus import ADDRESS_BITS, BurstRequest
from tilewright.rtl.interfaces import FAULT_ADDRESS_BITS, StartedInstruction, index_bits
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.nest import NestWalker, Walk


class RegionTable(data.StructLayout):
    """Base (4 KiB aligned) and limit of every region, as the host set them."""

    def __init__(self, machine: Machine) -> None:
        limit = unsigned(machine.dram.offset_bits + 1)
        region = data.StructLayout({"base": unsigned(ADDRESS_BITS), "limit": limit})
        super().__init__({name: region for name in REGIONS})


class Bursts(wiring.Component):
    """Cuts the DRAM side of an instruction into bursts by `isa.timing.first_burst` and checks each against its region.

    In a cycle with `start`, `instruction` is taken; from the next cycle on its first burst is current, and the next one
    after each `step`. The instruction is over with the step of the burst that `is_last`. An outside burst sets `fault`,
    with `fault_address` the first byte outside, and must not be used.
    """

    def __init__(self, machine: Machine, formats: Sequence[InstructionFormat]) -> None:
        self.machine = machine
        self.formats = tuple(formats)
        self.bus_bytes = machine.dram.bus_bytes
        self.run_bits = max(
            (dram_word_bytes(machine, f) << (f.loops[-1].bits if f.loops else 0)).bit_length() for f in formats
        )
        walks = [Walk(f, f.loops, {"run": dram_operand(f)}) for f in self.formats]
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        run_bytes, consumed = Signal(self.run_bits, name="run_bytes"), Signal(self.run_bits)
        region = Signal(range(max(len(REGIONS), 1 << self.region_bits)))
        self.build_start(m, walker, run_bytes, region)

        offset = Signal(signed(walker.slot_shape("run").width + 1))
        left, size = Signal(self.run_bits), Signal(range(BURST_BEATS * self.bus_bytes + 1))
        m.d.comb += [offset.eq(walker.address["run"] + consumed), left.eq(run_bytes - consumed)]
        self.build_size(m, offset, left, size)
        ends_run = size == left
        m.d.comb += [self.is_last.eq(ends_run & walker.last), walker.step.eq(self.step & ends_run)]
        with m.If(self.step):
            m.d.sync += consumed.eq(Mux(ends_run, 0, consumed + size))
            with m.If(self.is_last):
                m.d.sync += self.is_active.eq(0)
        with m.If(self.start):
            m.d.sync += [consumed.eq(0), self.is_active.eq(1), self.index.eq(self.instruction.index)]
        self.build_outputs(m, offset, size, region)
        return m

    @property
    def region_bits(self) -> int:
        return max(f.field(f"{dram_operand(f).name}.region").type.bits for f in self.formats)

    def build_start(self, m: Module, walker: NestWalker, run_bytes: Signal, region: Signal) -> None:
        """Hand the nest to the walker, its innermost loop folded into the run when its words follow each other."""
        bits = self.instruction.bits
        m.d.comb += [walker.bits.eq(bits), walker.start.eq(self.start)]
        run_bytes_next = Signal(self.run_bits)
        with m.Switch(instruction_view(self.formats[0], bits)[OPCODE]):
            for format in self.formats:
                with m.Case(format.opcode):
                    view, operand = instruction_view(format, bits), dram_operand(format)
                    word_bytes = dram_word_bytes(self.machine, format)
                    m.d.comb += run_bytes_next.eq(word_bytes)
                    if format.loops and format.loops[-1].name in operand.loops:
                        innermost = format.loops[-1].name
                        with m.If(view[f"{operand.name}.{innermost}"] == word_bytes):
                            trips = view[f"trip.{innermost}"] + 1
                            m.d.comb += [walker.collapse.eq(1), run_bytes_next.eq(trips * word_bytes)]
                    with m.If(self.start):
                        m.d.sync += region.eq(view[f"{operand.name}.region"])
        with m.If(self.start):
            m.d.sync += run_bytes.eq(run_bytes_next)

    def build_size(self, m: Module, offset: Value, left: Value, size: Signal) -> None:
        to_boundary = BURST_BOUNDARY_BYTES - (offset & (BURST_BOUNDARY_BYTES - 1))
        to_longest = BURST_BEATS * self.bus_bytes - (offset & (self.bus_bytes - 1))
        to_end = Signal(range(max(BURST_BOUNDARY_BYTES, BURST_BEATS * self.bus_bytes) + 1))
        m.d.comb += [
            to_end.eq(Mux(to_boundary < to_longest, to_boundary, to_longest)),
            size.eq(Mux(left < to_end, left, to_end)),
        ]

    def build_outputs(self, m: Module, offset: Value, size: Value, region: Signal) -> None:
        beat_shift = (self.bus_bytes - 1).bit_length()
        base, limit = Signal(ADDRESS_BITS), Signal(self.machine.dram.offset_bits + 1)
        with m.Switch(region):  # a region number that names no region has the limit 0
            for number, name in enumerate(REGIONS):
                with m.Case(number):
                    m.d.comb += [base.eq(self.regions[name].base), limit.eq(self.regions[name].limit)]
        starts_outside = (offset < 0) | (offset >= limit)
        first_byte = offset & (self.bus_bytes - 1)
        m.d.comb += [
            self.request.address.eq(base + offset),
            self.beats.eq((first_byte + size + self.bus_bytes - 1) >> beat_shift),
            self.request.last_beat.eq(self.beats - 1),
            self.bytes.bytes.eq(size),
            self.bytes.first_byte.eq(first_byte),
            self.fault.eq(self.is_active & (starts_outside | (offset + size > limit))),
            self.fault_address.eq(base + Mux(starts_outside, offset, limit)),
        ]


def dram_operand(format: InstructionFormat) -> Operand:
    return next(operand for operand in format.operands if operand.memory == DRAM)


def chip_operand(format: InstructionFormat) -> Operand:
    """The on-chip end of a DMA instruction."""
    return next(operand for operand in format.operands if operand.memory != DRAM)


def dram_word_bytes(machine: Machine, format: InstructionFormat) -> int:
    """Bytes that one iteration of a DMA instruction moves: those of a word of the on-chip memory."""
    return machine.memories[chip_operand(format).memory].word_bytes
