"""The store engine: reads words of on-chip memories and writes their bytes to DRAM in bursts."""

from __future__ import annotations

from amaranth.hdl import Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.dma import chip_operand, moved_word_bytes
from tilewright.isa.timing import memory_read, next_start, word_parts
from tilewright.rtl.beats import BeatCursor, BurstBytes, Window, part_step
from tilewright.rtl.bus import BUFFERABLE, INCREMENTING, UNPRIVILEGED_DATA, WRITES, AddressRegister, axi_signature
from tilewright.rtl.delay import delayed
from tilewright.rtl.dma import FaultCause, build_dma_fault, build_dma_start
from tilewright.rtl.fifo import Fifo, ShownFifo
from tilewright.rtl.interfaces import Activity, StartedInstruction, engine_members, index_bits, takes_next
from tilewright.rtl.nest import FormatWalk
from tilewright.rtl.nest_ahead import ChipWalker, chip_walker, has_iteration
from tilewright.rtl.outline import outlined
from tilewright.rtl.ports import read_members, read_ports
from tilewright.rtl.responses import Responses
from tilewright.rtl.runs import Bursts, RegionTable


class StoreEngine(wiring.Component):
    """On-chip memories to DRAM. Four parts work on their own: reader, address side, beat former, responses.

    After a `halt`, bursts whose address was sent are completed with no byte enabled, as AXI demands. `is_idle`: nothing
    is open on the bus. `is_owed`: something is, and the bus did nothing for it in this cycle. A response that nobody
    waits for, such as one to a burst from before a reset, is accepted and means nothing. Cycles are told in
    docs/microarchitecture.md.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(self.engine)
        self.bus_bytes = machine.dram.bus_bytes
        self.memories = tuple(port.memory for port in read_ports(machine) if port.engine is self.engine)
        self.bursts, self.reader = Bursts(machine, self.formats), Reader(machine, engine)
        bus = axi_signature(machine, engine.dma.port).members
        super().__init__(
            {
                **engine_members(machine),
                "regions": In(RegionTable(machine)),
                **{name: direction for name, direction in bus.items() if name.startswith(WRITES)},
                **read_members(machine, self.engine),
                "bytes_written": Out(range(self.bus_bytes + 1)),  # enabled in the beat formed in this cycle
                "is_idle": Out(1),
                "is_owed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.reader = reader = self.reader
        m.submodules.bursts = bursts = self.bursts
        m.submodules.address = address = AddressRegister()
        m.submodules.former = former = BeatFormer(self.machine, self.engine)
        m.submodules.responses = responses = Responses(self.engine.dma.contexts, index_bits(self.machine))
        for name in self.memories:
            wiring.connect(m, getattr(reader, f"read_{name}"), wiring.flipped(getattr(self, f"read_{name}")))
        wiring.connect(m, reader.part, former.part)
        m.d.comb += [
            bursts.regions.eq(self.regions),
            reader.halt.eq(self.halt),
            former.halt.eq(self.halt),
            reader.moved.eq(former.part.valid & former.part.ready),
            self.bytes_written.eq(former.bytes_written),
            self.retire.eq(responses.retire & ~self.halt),
        ]
        self.build_address_side(m, bursts, address, former, responses)
        self.build_bus(m, address, former, responses)
        is_started = self.build_start(m, reader, bursts, responses)
        self.build_fault(m, reader, bursts, responses)
        with m.If(reader.is_granted | former.forms):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(reader.is_refused):
            m.d.comb += self.activity.eq(Activity.STALL_PORT)
        with m.Elif(is_started):
            m.d.comb += self.activity.eq(Activity.STALL_DRAM)
        return m

    def build_address_side(
        self, m: Module, bursts: Bursts, address: AddressRegister, former: BeatFormer, responses: Responses
    ) -> None:
        asks = bursts.is_active & ~bursts.fault & ~self.halt
        m.d.comb += [
            address.input.valid.eq(asks & former.burst.ready),
            address.input.payload.eq(bursts.request),
            bursts.step.eq(address.input.valid & address.input.ready),
            former.burst.valid.eq(bursts.step),
            former.burst.payload.eq(bursts.bytes),
            responses.addressed.eq(bursts.step),
            responses.addressed_last.eq(bursts.step & bursts.is_last),
        ]

    def build_bus(self, m: Module, address: AddressRegister, former: BeatFormer, responses: Responses) -> None:
        m.d.comb += [
            self.awaddr.eq(address.output.payload.address),
            self.awlen.eq(address.output.payload.last_beat),
            self.awsize.eq((self.bus_bytes - 1).bit_length()),
            self.awburst.eq(INCREMENTING),
            self.awcache.eq(BUFFERABLE),
            self.awprot.eq(UNPRIVILEGED_DATA),
            self.awvalid.eq(address.output.valid),
            address.output.ready.eq(self.awready),
            self.wdata.eq(former.beat.payload.data),
            self.wstrb.eq(former.beat.payload.strobe),
            self.wlast.eq(former.beat.payload.is_last),
            self.wvalid.eq(former.beat.valid),
            former.beat.ready.eq(self.wready),
            self.bready.eq(1),
            responses.responded.eq(self.bvalid),
            self.is_idle.eq(~self.awvalid & ~self.wvalid & responses.is_idle),
            self.is_owed.eq(
                ~self.is_idle & ~(self.awvalid & self.awready) & ~(self.wvalid & self.wready) & ~self.bvalid
            ),
        ]

    def build_start(self, m: Module, reader: Reader, bursts: Bursts, responses: Responses) -> Value:
        contexts = self.engine.dma.contexts
        start, started = build_dma_start(m, self, bursts, contexts, reader.is_free)
        m.d.comb += [
            reader.start.eq(start),
            reader.instruction.eq(self.instruction.payload),
            responses.start.eq(start),
            responses.instruction.eq(self.instruction.payload.index),
        ]
        return started > 0

    def build_fault(self, m: Module, reader: Reader, bursts: Bursts, responses: Responses) -> None:
        causes = [
            FaultCause(FaultCode.BUS, responses.counts & self.bresp[1], responses.oldest_instruction),
            FaultCause(FaultCode.ADDRESS, reader.fault, reader.reading, reader.fault_address),
        ]
        build_dma_fault(m, self, bursts, causes)


class StoredPart(data.StructLayout):
    """A part of a word that was read: its bytes, as many as a beat has or fewer, and how many there are."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__({"data": unsigned(8 * bus_bytes), "bytes": range(bus_bytes + 1)})


class Reader(wiring.Component):
    """Reads an instruction's words in order, each in parts of a beat's size, a part a read.

    As many parts as the engine's `beats` are read or being read and not `moved` on. Takes an instruction with `start`.
    `is_free`: none is in hand, or its last read is granted in this cycle where `pipeline.start` allows that.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(self.engine)
        self.bus_bytes = machine.dram.bus_bytes
        self.walker = chip_walker(machine, [FormatWalk(f, f.loops, {"word": chip_operand(f)}) for f in self.formats])
        self.read = memory_read(machine.pipeline)
        super().__init__(
            {
                "halt": In(1),
                "instruction": In(StartedInstruction(machine)),
                "start": In(1),
                "is_free": Out(1),
                **read_members(machine, self.engine),
                "part": Out(stream.Signature(StoredPart(self.bus_bytes))),
                "moved": In(1),
                "is_granted": Out(1),
                "is_refused": Out(1),
                "reading": Out(index_bits(machine)),
                "fault": Out(1),
                "fault_address": Out(self.walker.slot_shape("word")),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m, most = Module(), self.engine.dma.beats
        m.submodules.walker = walker = self.walker
        m.submodules.parts = parts = Fifo(StoredPart(self.bus_bytes), most)
        is_active, asks, ends_word = Signal(name="is_active"), Signal(name="asks"), Signal(name="ends_word")
        held = Signal(range(most + 1), name="held")
        ends = ends_word & walker.last
        m.d.comb += [
            asks.eq(has_iteration(walker, is_active) & (held < most) & ~self.halt),
            self.fault.eq(asks & walker.fault),
            self.fault_address.eq(walker.fault_address),
            self.is_refused.eq(asks & ~walker.fault & ~self.is_granted),
            self.is_free.eq(takes_next(self.engine, is_active, ends)),
            walker.bits.eq(self.instruction.bits),
            walker.start.eq(self.start),
            walker.step.eq(ends_word),
        ]
        comes = delayed(m, self.is_granted, self.read - 1, "granted", reset_less=False)
        m.d.sync += [held.eq(held + self.is_granted - self.moved), parts.input.valid.eq(comes)]
        self.build_parts(m, walker, asks, ends_word, parts.input.payload)
        with m.If(~is_active | ends if next_start(self.engine.pipeline) else self.is_free):
            m.d.sync += is_active.eq(self.start)
        with m.If(self.start):
            m.d.sync += self.reading.eq(self.instruction.index)
        wiring.connect(m, parts.output, wiring.flipped(self.part))
        return m

    def build_parts(self, m: Module, walker: ChipWalker, asks: Signal, ends_word: Signal, part: data.View) -> None:
        """Ask for a word as often as it has parts; its data come `memory_read` later, and the part is cut out."""
        most = max(word_parts(moved_word_bytes(f, self.machine), self.bus_bytes) for f in self.formats)
        place, place_granted = Signal(range(most), name="place"), Signal(range(most), name="place_granted")
        format_granted = Signal.like(walker.walk)
        with m.If(self.is_granted):
            m.d.sync += place.eq(Mux(ends_word, 0, place + 1))
        m.d.sync += [
            format_granted.eq(delayed(m, walker.walk, self.read - 1, "format")),
            place_granted.eq(delayed(m, place, self.read - 1, "place")),
        ]
        for position, format in enumerate(self.formats):
            size = moved_word_bytes(format, self.machine)
            last = word_parts(size, self.bus_bytes) - 1
            port = getattr(self, f"read_{chip_operand(format).memory}")
            m.d.comb += port.address.eq(walker.address["word"])
            with m.If(self._is_format(walker.walk, position)):
                m.d.comb += [
                    port.valid.eq(asks & ~walker.fault),
                    self.is_granted.eq(port.valid & port.granted),
                    ends_word.eq(self.is_granted & (place == last)),
                ]
            with m.If(self._is_format(format_granted, position)):
                m.d.comb += [
                    part.data.eq(port.data.word_select(place_granted, 8 * self.bus_bytes)),
                    part.bytes.eq(Mux(place_granted == last, size - last * self.bus_bytes, self.bus_bytes)),
                ]

    def _is_format(self, number: Signal, position: int) -> Value:
        """Whether a format's number is this one; the only format needs none."""
        return number == position if len(self.formats) > 1 else Const(1)


class WriteBeat(data.StructLayout):
    """A beat of the write data channel."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__({"data": unsigned(8 * bus_bytes), "strobe": unsigned(bus_bytes), "is_last": unsigned(1)})


class BeatFormer(wiring.Component):
    """Parts of words in, beats of the queued bursts out: one part and one beat a cycle at the most.

    While `halt` is set, the queued bursts are completed with no byte enabled, and no part is taken.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.bursts = engine.dma.bursts
        self.bus_bytes = machine.dram.bus_bytes
        sizes = [moved_word_bytes(format, machine) for format in machine.formats_of(engine)]
        self.window = Window(self.bus_bytes, put_step=part_step(sizes, self.bus_bytes))
        super().__init__(
            {
                "halt": In(1),
                "part": In(stream.Signature(StoredPart(self.bus_bytes))),
                "burst": In(stream.Signature(BurstBytes(self.bus_bytes))),
                "beat": Out(stream.Signature(WriteBeat(self.bus_bytes))),
                "forms": Out(1),
                "bytes_written": Out(range(self.bus_bytes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.burst_queue = burst_queue = ShownFifo(BurstBytes(self.bus_bytes), self.bursts)
        m.submodules.cursor = cursor = BeatCursor(self.bus_bytes)
        m.submodules.window = window = self.window
        wiring.connect(m, wiring.flipped(self.burst), burst_queue.input)
        has_bytes = window.count >= cursor.bytes
        m.d.comb += [
            cursor.burst.eq(burst_queue.output.payload),
            self.forms.eq(
                burst_queue.output.valid & (has_bytes | self.halt) & (~self.beat.valid | self.beat.ready),
            ),
            cursor.step.eq(self.forms),
            burst_queue.output.ready.eq(self.forms & cursor.is_last),
            self.bytes_written.eq(Mux(self.forms & ~self.halt, cursor.bytes, 0)),
            window.takes.eq(self.forms & ~self.halt),
            window.take.eq(cursor.bytes),
            self.part.ready.eq(window.fits & ~self.halt),
            window.puts.eq(self.part.valid & self.part.ready),
            window.put.eq(self.part.payload.bytes),
            window.put_first.eq(0),
            window.put_data.eq(self.part.payload.data),
            window.data_first.eq(cursor.first_byte),
        ]
        with m.If(~self.beat.valid | self.beat.ready):
            enabled = Mux(self.halt, 0, (1 << cursor.bytes) - 1)
            m.d.sync += [
                self.beat.valid.eq(self.forms),
                self.beat.payload.data.eq(window.data),
                self.beat.payload.strobe.eq(enabled << cursor.first_byte),
                self.beat.payload.is_last.eq(cursor.is_last),
            ]
        return m
