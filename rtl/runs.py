"""The address side of the DMA engines: an instruction's bytes in DRAM as contiguous runs, cut into checked bursts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.bus import ADDRESS_BITS, BurstRequest
from tilewright.rtl.interfaces import FAULT_ADDRESS_BITS, INDEX_BITS, QueuedInstruction
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.nest import NestWalker, Walk


class RegionTable(data.StructLayout):
    """Base (4 KiB aligned) and limit of every region, as the host set them."""

    def __init__(self, machine: Machine) -> None:
        limit = unsigned(machine.dram.offset_bits + 1)
        region = data.StructLayout({"base": unsigned(ADDRESS_BITS), "limit": limit})
        super().__init__({name: region for name in REGIONS})


class BurstBytes(data.StructLayout):
    """What the data side must know of a burst: how many bytes, in which byte of its first beat they begin, for whom."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__(
            {
                "bytes": unsigned((BURST_BEATS * bus_bytes).bit_length()),
                "first_byte": unsigned((bus_bytes - 1).bit_length()),
                "instruction": unsigned(INDEX_BITS),
            }
        )


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
                "instruction": In(QueuedInstruction(machine)),
                "start": In(1),
                "step": In(1),
                "is_active": Out(1),
                "request": Out(BurstRequest()),
                "beats": Out(range(BURST_BEATS + 1)),
                "bytes": Out(BurstBytes(self.bus_bytes)),
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
            m.d.sync += [consumed.eq(0), self.is_active.eq(1), self.bytes.instruction.eq(self.instruction.index)]
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


def build_dma_start(
    m: Module, engine: wiring.Component, bursts: Bursts, contexts: int, is_free: Value | None = None
) -> tuple[Signal, Signal]:
    """Take an instruction into the address side once that is done with the one before; at most `contexts` in hand.

    `is_free`: what else must be. Returns that one starts in this cycle, and how many are started and not retired.
    """
    start, started = Signal(name="start"), Signal(range(contexts + 1), name="started")
    is_addressed = ~bursts.is_active | (bursts.step & bursts.is_last)
    is_free = is_addressed if is_free is None else is_addressed & is_free
    m.d.comb += [
        engine.instruction.ready.eq(is_free & (started < contexts) & ~engine.halt),
        start.eq(engine.instruction.valid & engine.instruction.ready),
        bursts.start.eq(start),
        bursts.instruction.eq(engine.instruction.payload),
    ]
    m.d.sync += started.eq(started + start - engine.retire)
    return start, started


@dataclass(frozen=True, slots=True)
class FaultCause:
    """What makes a DMA engine stop: `holds` in a cycle in which it does, for an instruction and an address."""

    code: FaultCode
    holds: Value
    instruction: Value
    address: Value | int = 0


def build_dma_fault(m: Module, engine: wiring.Component, bursts: Bursts, causes: Sequence[FaultCause]) -> None:
    """The first cause that holds is an engine's fault; the last of them is that the address side leaves a region."""
    region = FaultCause(FaultCode.REGION, bursts.fault, bursts.bytes.instruction, bursts.fault_address)
    causes = [*causes, region]
    m.d.comb += engine.fault.valid.eq(~engine.halt & Cat(cause.holds for cause in causes).any())
    fault = engine.fault.payload
    for cause in reversed(causes):
        with m.If(cause.holds):
            m.d.comb += [
                fault.code.eq(cause.code),
                fault.instruction.eq(cause.instruction),
                fault.address.eq(cause.address),
            ]


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

    `data` holds `count` bytes, the oldest lowest, zeros above. `put_data` is zero above its `put` bytes.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        super().__init__(
            {
                "data": Out(8 * capacity),
                "count": Out(range(capacity + 1)),
                "take": In(range(capacity + 1)),
                "put": In(range(capacity + 1)),
                "put_data": In(8 * capacity),
                "room": Out(range(capacity + 1)),  # after this cycle's take
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal(range(self.capacity + 1))
        m.d.comb += [kept.eq(self.count - self.take), self.room.eq(self.capacity - kept)]
        joining = Mux(self.put != 0, self.put_data, 0) << (kept << 3)
        m.d.sync += [self.count.eq(kept + self.put), self.data.eq((self.data >> (self.take << 3)) | joining)]
        return m


def dram_operand(format: InstructionFormat) -> Operand:
    return next(operand for operand in format.operands if operand.memory == DRAM)


def chip_operand(format: InstructionFormat) -> Operand:
    """The on-chip end of a DMA instruction."""
    return next(operand for operand in format.operands if operand.memory != DRAM)


def dram_word_bytes(machine: Machine, format: InstructionFormat) -> int:
    """Bytes that one iteration of a DMA instruction moves: those of a word of the on-chip memory."""
    return machine.memories[chip_operand(format).memory].word_bytes


def masked_bytes(value: Value, count: Value) -> Value:
    """The lowest `count` bytes of a value, zeros above."""
    everything = Const(-1, signed(1))
    return value & ~(everything << (count << 3))
