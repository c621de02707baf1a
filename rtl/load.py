"""The load engine: reads DRAM in bursts, packs the bytes into words and writes them to on-chip memories."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.timing import BURST_QUEUE, LOAD_CONTEXTS
from tilewright.rtl.beats import BeatCursor, BurstBytes, Window, masked_bytes
from tilewright.rtl.bus import BurstRequest, ReadBeat, ReadBeatSignature
from tilewright.rtl.dma import FaultCause, build_dma_fault, build_dma_start
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.interfaces import INDEX_BITS, Activity, QueuedInstruction, engine_members
from tilewright.rtl.nest import NestWalker, Walk
from tilewright.rtl.ports import write_members, write_ports
from tilewright.rtl.runs import Bursts, RegionTable, chip_operand, dram_word_bytes


class LoadEngine(wiring.Component):
    """DRAM to on-chip memories. Three parts work on their own, joined by queues: address side, packer, writer.

    Address side: asks for the instruction's bursts. Packer: joins the bytes of beats and cuts them into words. Writer:
    holds one word until the memory takes it. Cycles are told in docs/microarchitecture.md.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.formats = machine.formats_of("load")
        self.bus_bytes = machine.dram.bus_bytes
        self.memories = tuple(port.memory for port in write_ports(machine) if port.engine == "load")
        self.bursts, self.packer = Bursts(machine, self.formats), Packer(machine)
        super().__init__(
            {
                **engine_members(machine),
                "regions": In(RegionTable(machine)),
                "request": Out(stream.Signature(BurstRequest())),
                "beat": In(ReadBeatSignature(self.bus_bytes)),
                **write_members(machine, "load"),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bursts = bursts = self.bursts
        m.submodules.burst_queue = burst_queue = Fifo(BurstBytes(self.bus_bytes), BURST_QUEUE)
        m.submodules.packing_queue = packing_queue = Fifo(QueuedInstruction(self.machine), LOAD_CONTEXTS)
        m.submodules.packer = packer = self.packer
        m.submodules.writer = writer = Writer(self.machine)
        wiring.connect(m, burst_queue.output, packer.burst)
        wiring.connect(m, packing_queue.output, packer.instruction)
        wiring.connect(m, wiring.flipped(self.beat), packer.beat)
        wiring.connect(m, packer.word, writer.word)
        for name in self.memories:
            wiring.connect(m, getattr(writer, f"write_{name}"), wiring.flipped(getattr(self, f"write_{name}")))
        m.d.comb += [
            bursts.regions.eq(self.regions),
            packer.halt.eq(self.halt),
            writer.halt.eq(self.halt),
            self.retire.eq(writer.retire),
        ]
        self.build_address_side(m, bursts, burst_queue, packer)
        started = self.build_start(m, bursts, packing_queue)
        self.build_fault(m, bursts, packer)
        with m.If(packer.word.valid & packer.word.ready):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(writer.is_refused):
            m.d.comb += self.activity.eq(Activity.STALL_PORT)
        with m.Elif(started > 0):
            m.d.comb += self.activity.eq(Activity.STALL_DRAM)
        return m

    def build_address_side(self, m: Module, bursts: Bursts, burst_queue: Fifo, packer: Packer) -> None:
        most = self.machine.dram.outstanding_beats
        asked = Signal(range(most + 1))  # beats asked for and not yet taken by the packer
        has_room = burst_queue.input.ready & (asked + bursts.beats <= most)
        m.d.comb += [
            self.request.valid.eq(bursts.is_active & ~bursts.fault & ~self.halt & has_room),
            self.request.payload.eq(bursts.request),
            bursts.step.eq(self.request.valid & self.request.ready),
            burst_queue.input.valid.eq(bursts.step),
            burst_queue.input.payload.eq(bursts.bytes),
        ]
        m.d.sync += asked.eq(asked + Mux(bursts.step, bursts.beats, 0) - packer.takes_beat)

    def build_start(self, m: Module, bursts: Bursts, packing_queue: Fifo) -> Signal:
        """Take an instruction into the address side and the packer's queue; returns how many are in hand."""
        start, started = build_dma_start(m, self, bursts, LOAD_CONTEXTS)
        m.d.comb += [
            packing_queue.input.valid.eq(start),
            packing_queue.input.payload.eq(self.instruction.payload),
        ]
        return started

    def build_fault(self, m: Module, bursts: Bursts, packer: Packer) -> None:
        causes = [
            FaultCause(FaultCode.BUS, packer.bus_fault, packer.burst.payload.instruction),
            FaultCause(FaultCode.ADDRESS, packer.address_fault, packer.packing, packer.fault_address),
        ]
        build_dma_fault(m, self, bursts, causes)


class LoadedWord(data.StructLayout):
    """A word on its way to the memory that its instruction's format (by position) writes."""

    def __init__(self, machine: Machine) -> None:
        formats = machine.formats_of("load")
        memories = [machine.memories[f.destination.memory] for f in formats]
        super().__init__(
            {
                "format": range(len(formats)),
                "address": max(memory.address_bits for memory in memories),
                "data": 8 * max(memory.word_bytes for memory in memories),
                "is_last": 1,
            }
        )


class Packer(wiring.Component):
    """Beats of bursts in, words of instructions out: one beat and one word a cycle at the most.

    `packing` is the instruction whose words are formed. A beat with a bus error, or a word for an address outside its
    memory, raises its fault in the cycle in which it would be taken or emitted.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.formats = machine.formats_of("load")
        self.bus_bytes = machine.dram.bus_bytes
        self.walker = NestWalker(machine, [Walk(f, f.loops, {"word": chip_operand(f)}) for f in self.formats])
        super().__init__(
            {
                "halt": In(1),
                "instruction": In(stream.Signature(QueuedInstruction(machine))),
                "burst": In(stream.Signature(BurstBytes(self.bus_bytes))),
                "beat": In(ReadBeatSignature(self.bus_bytes)),
                "takes_beat": Out(1),
                "word": Out(stream.Signature(LoadedWord(machine))),
                "is_packing": Out(1),
                "packing": Out(INDEX_BITS),
                "bus_fault": Out(1),
                "address_fault": Out(1),
                "fault_address": Out(self.walker.slot_shape("word")),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        m.submodules.beats = beats = Fifo(ReadBeat(self.bus_bytes), self.machine.dram.outstanding_beats)
        m.submodules.cursor = cursor = BeatCursor(self.bus_bytes)
        word_sizes = [dram_word_bytes(self.machine, f) for f in self.formats]
        m.submodules.window = window = Window(max(word_sizes) + self.bus_bytes)
        m.d.comb += [
            beats.input.valid.eq(self.beat.valid),
            beats.input.payload.eq(self.beat.payload),
            cursor.burst.eq(self.burst.payload),
        ]
        emits = self.build_emit(m, walker, window, word_sizes)
        self.build_take(m, beats, cursor, window)
        self.build_next_instruction(m, walker, emits)
        return m

    def build_emit(self, m: Module, walker: NestWalker, window: Window, word_sizes: list[int]) -> Signal:
        word_bytes, emits, can_emit = Signal(range(max(word_sizes) + 1), name="word_bytes"), Signal(), Signal()
        with m.Switch(walker.walk):
            for position, size in enumerate(word_sizes):
                with m.Case(position):
                    m.d.comb += word_bytes.eq(size)
        m.d.comb += [
            can_emit.eq(self.is_packing & (window.count >= word_bytes) & ~self.halt),
            self.word.valid.eq(can_emit & ~walker.fault),
            self.word.payload.format.eq(walker.walk),
            self.word.payload.address.eq(walker.address["word"]),
            self.word.payload.data.eq(window.data),
            self.word.payload.is_last.eq(walker.last),
            self.address_fault.eq(can_emit & walker.fault & self.word.ready),
            self.fault_address.eq(walker.fault_address),
            emits.eq(self.word.valid & self.word.ready),
            walker.step.eq(emits),
            window.take.eq(Mux(emits, word_bytes, 0)),
        ]
        return emits

    def build_take(self, m: Module, beats: Fifo, cursor: BeatCursor, window: Window) -> None:
        can_take = Signal()
        beat = beats.output.payload
        m.d.comb += [
            can_take.eq(beats.output.valid & self.burst.valid & (cursor.bytes <= window.room) & ~self.halt),
            self.bus_fault.eq(can_take & beat.error),
            self.takes_beat.eq(can_take & ~beat.error),
            beats.output.ready.eq(self.takes_beat),
            cursor.step.eq(self.takes_beat),
            self.burst.ready.eq(self.takes_beat & cursor.is_last),
            window.put.eq(Mux(self.takes_beat, cursor.bytes, 0)),
            window.put_data.eq(masked_bytes(beat.data >> (cursor.first_byte << 3), cursor.bytes)),
        ]

    def build_next_instruction(self, m: Module, walker: NestWalker, emits: Signal) -> None:
        m.d.comb += [
            self.instruction.ready.eq(~self.is_packing | (emits & walker.last)),
            walker.bits.eq(self.instruction.payload.bits),
            walker.start.eq(self.instruction.valid & self.instruction.ready),
        ]
        with m.If(self.instruction.ready):
            m.d.sync += [self.is_packing.eq(self.instruction.valid), self.packing.eq(self.instruction.payload.index)]


class Writer(wiring.Component):
    """Holds one word until its memory takes it; ready for the next one in the cycle in which it does."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.formats = machine.formats_of("load")
        super().__init__(
            {
                "halt": In(1),
                "word": In(stream.Signature(LoadedWord(machine))),
                **write_members(machine, "load"),
                "is_refused": Out(1),
                "retire": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_held, held, granted = Signal(name="is_held"), Signal(LoadedWord(self.machine), name="held"), Signal()
        for position, format in enumerate(self.formats):
            port = getattr(self, f"write_{format.destination.memory}")
            with m.If(is_held & (held.format == position)):
                m.d.comb += [port.valid.eq(~self.halt), granted.eq(port.granted & ~self.halt)]
            m.d.comb += [port.address.eq(held.address), port.data.eq(held.data)]
        m.d.comb += [
            self.word.ready.eq(~is_held | granted),
            self.is_refused.eq(is_held & ~granted),
            self.retire.eq(granted & held.is_last),
        ]
        with m.If(self.word.ready):
            m.d.sync += [is_held.eq(self.word.valid), held.eq(self.word.payload)]
        return m
