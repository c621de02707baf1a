"""The load engine: reads DRAM in bursts, packs the bytes into words and writes them to on-chip memories."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import FieldKind, InstructionField, InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.dma import chip_operand, moved_word_bytes
from tilewright.isa.timing import word_parts
from tilewright.rtl.beats import BeatCursor, BurstBytes, Window, part_step
from tilewright.rtl.bus import BurstRequest, ReadBeat
from tilewright.rtl.dma import FaultCause, build_dma_fault, build_dma_start
from tilewright.rtl.fifo import Fifo, ShownFifo
from tilewright.rtl.interfaces import Activity, KeptInstruction, StartedInstruction, engine_members, index_bits
from tilewright.rtl.kept_bits import kept_bits
from tilewright.rtl.nest import FormatWalk
from tilewright.rtl.nest_ahead import ChipWalker, NestAhead, chip_walker
from tilewright.rtl.outline import outlined
from tilewright.rtl.ports import write_members, write_ports
from tilewright.rtl.runs import Bursts, RegionTable


class LoadEngine(wiring.Component):
    """DRAM to on-chip memories. Three parts work on their own, joined by queues: address side, packer, writer.

    Address side: asks for the instruction's bursts. Packer: joins the bytes of beats and cuts them into parts of words.
    Writer: puts a word together and holds it until the memory takes it. Cycles are told in docs/microarchitecture.md.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(self.engine)
        self.bus_bytes = machine.dram.bus_bytes
        self.memories = tuple(port.memory for port in write_ports(machine) if port.engine is self.engine)
        self.bursts, self.packer = Bursts(machine, self.formats), Packer(machine, engine)
        self.kept = kept_bits(self.formats, 8 * machine.longest_instruction_bytes, is_packed)
        super().__init__(
            {
                **engine_members(machine),
                "regions": In(RegionTable(machine)),
                "request": Out(stream.Signature(BurstRequest())),
                "beat": In(stream.Signature(ReadBeat(self.bus_bytes))),
                **write_members(machine, self.engine),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m, flight = Module(), self.engine.dma
        m.submodules.bursts = bursts = self.bursts
        m.submodules.burst_queue = burst_queue = ShownFifo(QueuedBurst(self.machine), flight.bursts)
        m.submodules.packing_queue = packing_queue = Fifo(KeptInstruction(self.machine, self.kept), flight.contexts)
        m.submodules.packer = packer = self.packer
        m.submodules.writer = writer = Writer(self.machine, self.engine)
        wiring.connect(m, burst_queue.output, packer.burst)
        wiring.connect(m, wiring.flipped(self.beat), packer.beat)
        wiring.connect(m, packer.part, writer.part)
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
        with m.If(packer.part.valid & packer.part.ready):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(writer.is_refused):
            m.d.comb += self.activity.eq(Activity.STALL_PORT)
        with m.Elif(started > 0):
            m.d.comb += self.activity.eq(Activity.STALL_DRAM)
        return m

    def build_address_side(self, m: Module, bursts: Bursts, burst_queue: Fifo, packer: Packer) -> None:
        most = self.machine.dram.outstanding_beats
        free = Signal(range(most + 1), init=most)  # of `most` beats: neither asked for, nor waiting for the packer
        has_room = burst_queue.input.ready & (bursts.beats <= free)
        m.d.comb += [
            self.request.valid.eq(bursts.is_active & ~bursts.fault & ~self.halt & has_room),
            self.request.payload.eq(bursts.request),
            bursts.step.eq(self.request.valid & self.request.ready),
            burst_queue.input.valid.eq(bursts.step),
            burst_queue.input.payload.bytes.eq(bursts.bytes),
            burst_queue.input.payload.index.eq(bursts.index),
        ]
        m.d.sync += free.eq(free + packer.takes_beat - Mux(bursts.step, bursts.beats, 0))

    def build_start(self, m: Module, bursts: Bursts, packing_queue: Fifo) -> Signal:
        """Take an instruction into the address side and the packer's queue; returns how many are in hand."""
        start, started = build_dma_start(m, self, bursts, self.engine.dma.contexts)
        entering, oldest, packed = packing_queue.input, packing_queue.output, self.packer.instruction
        m.d.comb += [
            entering.valid.eq(start),
            entering.payload.bits.eq(self.kept.pack(self.instruction.payload.bits)),
            entering.payload.index.eq(self.instruction.payload.index),
            packed.valid.eq(oldest.valid),
            packed.payload.bits.eq(self.kept.unpack(oldest.payload.bits)),
            packed.payload.index.eq(oldest.payload.index),
            oldest.ready.eq(packed.ready),
        ]
        return started

    def build_fault(self, m: Module, bursts: Bursts, packer: Packer) -> None:
        causes = [
            FaultCause(FaultCode.BUS, packer.bus_fault, packer.burst.payload.index),
            FaultCause(FaultCode.ADDRESS, packer.address_fault, packer.packing, packer.fault_address),
        ]
        build_dma_fault(m, self, bursts, causes)


class QueuedBurst(data.StructLayout):
    """A burst whose beats come, and the index of its instruction, which is at fault if the bus reports an error."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({"bytes": BurstBytes(machine.dram.bus_bytes), "index": unsigned(index_bits(machine))})


def is_packed(format: InstructionFormat, field: InstructionField) -> bool:
    """Whether the packer reads a field: trip counts, and where the words go."""
    return field.kind is FieldKind.TRIP or field.name.startswith(f"{chip_operand(format).name}.")


class WordTarget(data.StructLayout):
    """Where a word goes: an address of the memory that its instruction's format (by position) writes.

    `is_last` is set in an instruction's last word.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        formats = machine.formats_of(engine)
        address_bits = max(machine.memories[f.destination.memory].address_bits for f in formats)
        super().__init__({"format": range(len(formats)), "address": address_bits, "is_last": 1})


class WordPart(data.StructLayout):
    """A part of a word, of a beat's size or shorter; `place` counts them, `ends_word` is set with the word's last."""

    def __init__(self, machine: Machine, engine: Engine) -> None:
        super().__init__(
            {
                **WordTarget(machine, engine).members,
                "place": range(most_parts(machine, engine)),
                "data": 8 * machine.dram.bus_bytes,
                "ends_word": 1,
            }
        )


def most_parts(machine: Machine, engine: Engine) -> int:
    """Of a word of any memory that an engine writes."""
    formats = machine.formats_of(engine)
    return max(word_parts(moved_word_bytes(format, machine), machine.dram.bus_bytes) for format in formats)


class Packer(wiring.Component):
    """Beats of bursts in, parts of words out: one beat and one part a cycle at the most.

    `packing` is the instruction whose words are formed. A beat with a bus error, or a part for an address outside its
    memory, raises its fault in the cycle in which it would be taken or emitted. While `halt` is set, beats are accepted
    and lost, so that what the bus still owes can come.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(self.engine)
        self.bus_bytes = machine.dram.bus_bytes
        self.walker = chip_walker(machine, [FormatWalk(f, f.loops, {"word": chip_operand(f)}) for f in self.formats])
        super().__init__(
            {
                "halt": In(1),
                "instruction": In(stream.Signature(StartedInstruction(machine))),
                "burst": In(stream.Signature(QueuedBurst(machine))),
                "beat": In(stream.Signature(ReadBeat(self.bus_bytes))),
                "takes_beat": Out(1),
                "part": Out(stream.Signature(WordPart(machine, engine))),
                "is_packing": Out(1),
                "packing": Out(index_bits(machine)),
                "bus_fault": Out(1),
                "address_fault": Out(1),
                "fault_address": Out(self.walker.slot_shape("word")),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        m.submodules.beats = beats = Fifo(ReadBeat(self.bus_bytes), self.engine.dma.beats)
        m.submodules.cursor = cursor = BeatCursor(self.bus_bytes)
        step = part_step([moved_word_bytes(format, self.machine) for format in self.formats], self.bus_bytes)
        m.submodules.window = window = Window(self.bus_bytes, take_step=step)
        m.d.comb += [
            beats.input.valid.eq(self.beat.valid & ~self.halt),
            beats.input.payload.eq(self.beat.payload),
            self.beat.ready.eq(beats.input.ready | self.halt),
            cursor.burst.eq(self.burst.payload.bytes),
        ]
        ends_word = self.build_emit(m, walker, window)
        self.build_take(m, beats, cursor, window)
        self.build_next_instruction(m, walker, ends_word)
        return m

    def build_emit(self, m: Module, walker: ChipWalker, window: Window) -> Signal:
        """Emit the next part of the word at the walker's address; returns that it is the word's last."""
        place, is_end = Signal(range(most_parts(self.machine, self.engine)), name="place"), Signal(name="is_end")
        part_bytes = Signal(range(self.bus_bytes + 1), name="part_bytes")
        with m.Switch(walker.walk):
            for position, format in enumerate(self.formats):
                size = moved_word_bytes(format, self.machine)
                last = word_parts(size, self.bus_bytes) - 1
                with m.Case(position):
                    m.d.comb += [
                        is_end.eq(place == last),
                        part_bytes.eq(Mux(place == last, size - last * self.bus_bytes, self.bus_bytes)),
                    ]
        emits, can_emit, ends_word = Signal(), Signal(), Signal()
        part = self.part.payload
        m.d.comb += [
            can_emit.eq(self.is_packing & (window.count >= part_bytes) & ~self.halt),
            self.part.valid.eq(can_emit & ~walker.fault),
            part.format.eq(walker.walk),
            part.address.eq(walker.address["word"]),
            part.place.eq(place),
            part.data.eq(window.data),
            window.data_first.eq(0),
            part.ends_word.eq(is_end),
            part.is_last.eq(walker.last),
            self.address_fault.eq(can_emit & walker.fault & self.part.ready),
            self.fault_address.eq(walker.fault_address),
            emits.eq(self.part.valid & self.part.ready),
            ends_word.eq(emits & is_end),
            walker.step.eq(ends_word),
            window.takes.eq(emits),
            window.take.eq(part_bytes),
        ]
        with m.If(emits):
            m.d.sync += place.eq(Mux(is_end, 0, place + 1))
        return ends_word

    def build_take(self, m: Module, beats: Fifo, cursor: BeatCursor, window: Window) -> None:
        can_take = Signal()
        beat = beats.output.payload
        m.d.comb += [
            can_take.eq(beats.output.valid & self.burst.valid & window.fits & ~self.halt),
            self.bus_fault.eq(can_take & beat.error),
            self.takes_beat.eq(can_take & ~beat.error),
            beats.output.ready.eq(self.takes_beat),
            cursor.step.eq(self.takes_beat),
            self.burst.ready.eq(self.takes_beat & cursor.is_last),
            window.puts.eq(self.takes_beat),
            window.put.eq(cursor.bytes),
            window.put_first.eq(cursor.first_byte),
            window.put_data.eq(beat.data),
        ]

    def build_next_instruction(self, m: Module, walker: ChipWalker, ends_word: Signal) -> None:
        m.d.comb += [
            walker.bits.eq(self.instruction.payload.bits),
            walker.start.eq(self.instruction.valid & self.instruction.ready),
        ]
        if isinstance(walker, NestAhead):  # it knows whose word it is, and takes the next instruction by itself
            m.d.comb += [
                walker.started_index.eq(self.instruction.payload.index),
                self.instruction.ready.eq(walker.ready),
                self.is_packing.eq(walker.valid),
                self.packing.eq(walker.index),
            ]
            return
        m.d.comb += self.instruction.ready.eq(~self.is_packing | (ends_word & walker.last))
        with m.If(self.instruction.ready):
            m.d.sync += [self.is_packing.eq(self.instruction.valid), self.packing.eq(self.instruction.payload.index)]


class Writer(wiring.Component):
    """Puts the parts of a word together and holds it until its memory takes it; ready again in the cycle of that."""

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(self.engine)
        super().__init__(
            {
                "halt": In(1),
                "part": In(stream.Signature(WordPart(machine, engine))),
                **write_members(machine, self.engine),
                "is_refused": Out(1),
                "retire": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        part, is_held, granted = self.part.payload, Signal(name="is_held"), Signal()
        held = Signal(WordTarget(self.machine, self.engine), name="held")
        word = Signal(8 * self.machine.dram.bus_bytes * most_parts(self.machine, self.engine), name="word")
        for position, format in enumerate(self.formats):
            port = getattr(self, f"write_{format.destination.memory}")
            with m.If(is_held & (held.format == position)):
                m.d.comb += [port.valid.eq(~self.halt), granted.eq(port.granted & ~self.halt)]
            m.d.comb += [port.address.eq(held.address), port.data.eq(word)]
        m.d.comb += [
            self.part.ready.eq(~is_held | granted),
            self.is_refused.eq(is_held & ~granted),
            self.retire.eq(granted & held.is_last),
        ]
        with m.If(self.part.ready):
            m.d.sync += is_held.eq(self.part.valid & part.ends_word)
        with m.If(self.part.valid & self.part.ready):
            m.d.sync += [
                *(held[name].eq(part[name]) for name in held.shape().members),
                word.word_select(part.place, len(part.data)).eq(part.data),
            ]
        return m
