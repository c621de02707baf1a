"""The vector engine: reads a word of each source an iteration, computes the statement, writes a word a result."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import or_

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat, Operand
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.vector import is_same_in_all_lanes, multiplied_by_element, vector_walk
from tilewright.isa.timing import (
    can_be_refused,
    format_stages,
    memory_read,
    vec_operands,
    vec_results,
    vec_stages,
)
from tilewright.rtl.datapath import VectorDatapath, formats_by_stages
from tilewright.rtl.datapath_widths import (
    immediates_bits,
    looked_up,
    result_bits,
    result_element_bits,
    source_bits,
    table_address_bits,
    word_bits,
)
from tilewright.rtl.delay import delayed
from tilewright.rtl.gating import clocked_in_flight, payload_domain, with_payload
from tilewright.rtl.interfaces import (
    Activity,
    LookupSignature,
    engine_members,
    index_bits,
    takes_next,
)
from tilewright.rtl.layout import immediate_places, immediates_layout, instruction_view
from tilewright.rtl.nest import FormatWalk, whole_walk
from tilewright.rtl.nest_ahead import ChipWalker, chip_walker, has_iteration
from tilewright.rtl.outline import outlined
from tilewright.rtl.parts import JoinedParts, build_part
from tilewright.rtl.ports import read_members, write_members, write_ports
from tilewright.rtl.results import ResultQueue
from tilewright.rtl.templates.vector import vector_source_memories


class VectorEngine(wiring.Component):
    """Runs the instructions of a vector engine, as docs/microarchitecture.md tells cycle by cycle.

    `source<i>_<memory>` reads source i of the formats that have it in that memory; `write_<memory>` writes their
    destinations; `lookup_<memory>` looks up in tables.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(engine)
        self.slots = range(machine.vector_sources(engine))
        self.read, self.operands = memory_read(machine.pipeline), vec_operands(machine)
        self.payload = payload_domain(machine)
        tables, lanes = looked_up(machine, engine), engine.vector.lanes
        self.targets = tuple(port.memory for port in write_ports(machine) if port.engine is engine)
        super().__init__(
            {
                **engine_members(machine),
                **read_members(machine, engine),
                **write_members(machine, engine),
                **{
                    f"lookup_{name}": Out(LookupSignature(machine.memories[name], lanes, machine.has_gated_clocks))
                    for name in tables
                },
            }
        )
        self.lookups = {name: getattr(self, f"lookup_{name}") for name in tables}

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if not self.formats:
            return m
        m.submodules.walker = walker = chip_walker(self.machine, vector_walks(self.machine, self.engine))
        datapath = VectorDatapath(self.machine, self.engine)
        m.submodules.datapath = with_payload(self.machine, datapath)
        is_active, can_ask, issues, has_room, may_issue = Signal(), Signal(), Signal(), Signal(), Signal()
        stages = self.engine.pipeline.halt
        got = [self.build_source(m, slot, walker, datapath, can_ask, issues) for slot in self.slots]
        is_there = has_iteration(walker, is_active)
        m.d.comb += [
            may_issue.eq(is_there & has_room & self.build_order(m, walker, issues) & ~self.halt),
            can_ask.eq(may_issue & ~walker.fault),
            issues.eq(can_ask & Cat(got).all() if got else can_ask),
            walker.step.eq(issues),
            self.fault.valid.eq(delayed(m, may_issue & walker.fault, stages, "is_bad", reset_less=False)),
            self.activity.eq(Mux(is_active, Mux(issues, Activity.BUSY, Activity.STALL_PORT), Activity.NONE)),
        ]
        immediates = self.build_start(m, walker, is_active, issues)
        self.build_operands(m, walker, datapath, issues, immediates)
        self.build_lookups(m, walker, datapath)
        self.build_results(m, walker, datapath, issues, has_room)
        in_flight = self.operands + vec_stages(self.machine, self.engine)
        return clocked_in_flight(self.machine, m, issues, in_flight)

    def build_start(self, m: Module, walker: ChipWalker, is_active: Signal, issues: Signal) -> Signal:
        """Take an instruction when none is active or its last iteration issues; return its immediates in place."""
        starts, index = Signal(), Signal(index_bits(self.machine), reset_less=True)
        immediates, places = Signal(immediates_bits(self.formats), reset_less=True), immediate_places(self.formats)
        m.d.comb += [
            self.instruction.ready.eq(takes_next(self.engine, is_active, issues & walker.last) & ~self.halt),
            starts.eq(self.instruction.valid & self.instruction.ready),
            walker.bits.eq(self.instruction.payload.bits),
            walker.start.eq(starts),
            self.fault.payload.code.eq(FaultCode.ADDRESS),
            self.fault.payload.instruction.eq(index),
            self.fault.payload.address.eq(self.build_fault_address(m, walker)),
        ]
        with m.If(starts):
            m.d.sync += [is_active.eq(1), index.eq(self.instruction.payload.index)]
            with m.Switch(instruction_view(self.formats[0], walker.bits)[OPCODE]):
                for format in self.formats:
                    view = instruction_view(format, walker.bits)
                    with m.Case(format.opcode):
                        layout = immediates_layout(format, places)
                        kept = data.View(layout, immediates[: layout.size])
                        m.d.sync += [kept[name].eq(view[name]) for name in format.immediates]
        with m.Elif(issues & walker.last):
            m.d.sync += is_active.eq(0)
        return immediates

    def build_fault_address(self, m: Module, walker: ChipWalker) -> Value:
        """That of the first bad operand, of an iteration that stays: which one it is may be known a cycle later."""
        if not self.engine.pipeline.halt:
            return walker.fault_address
        address: Value = Const(0)
        for slot, before in zip(walker.slots, accumulate(walker.is_bad.values(), or_, initial=Const(0)), strict=False):
            is_first = delayed(m, walker.is_bad[slot] & ~before, self.engine.pipeline.halt, f"is_first_bad_{slot}")
            address = address | Mux(is_first, walker.address[slot], 0)
        return address

    def build_order(self, m: Module, walker: ChipWalker, issues: Signal) -> Value:
        """Whether a result of the active instruction would come after all those issued before it.

        Bit n of a register says that the newest result comes in more than n cycles: more than one that issues now has.
        """
        last = vec_stages(self.machine, self.engine)
        own, is_behind = Signal(max(1, last), name="own"), Signal(name="is_behind")
        newest_after = Signal(max(1, last), name="newest_after")
        with m.Switch(walker.walk):
            for position, format in enumerate(self.formats):
                stages = format_stages(format)
                with m.Case(position):
                    m.d.comb += own.eq((1 << stages) - 1)
                    m.d.comb += is_behind.eq(~newest_after[stages] if stages < last else 1)
        m.d.sync += newest_after.eq(Mux(issues, own, newest_after >> 1))
        return is_behind

    def build_source(
        self, m: Module, slot: int, walker: ChipWalker, datapath: VectorDatapath, can_ask: Signal, issues: Signal
    ) -> Value:
        """Ask for a source until it is granted, and keep its word for the datapath; return whether it is there."""
        readers = {
            name: [
                i
                for i, format in enumerate(self.formats)
                if slot < len(format.streams) and format.streams[slot].memory == name
            ]
            for name in vector_source_memories(self.machine, self.engine, slot)
        }
        is_kept = Signal(name=f"is_kept_{slot}")
        is_used, is_granted = Signal(name=f"is_used_{slot}"), Signal(name=f"is_granted_{slot}")
        word = Signal(source_bits(self.machine, self.engine)[slot], name=f"word_{slot}", reset_less=True)
        grants = []
        for name, formats in readers.items():
            port = getattr(self, f"source{slot}_{name}")
            reads_here = Signal(name=f"reads_{slot}_{name}")
            has_word = Signal(name=f"has_word_{slot}_{name}")
            with m.Switch(walker.walk), m.Case(*formats):
                m.d.comb += [reads_here.eq(1), is_used.eq(1)]
            m.d.comb += [
                port.valid.eq(can_ask & ~is_kept & reads_here),
                port.address.eq(walker.address[_slot_name(slot)]),
            ]
            grants.append(port.valid & port.granted)
            m.d.sync += has_word.eq(delayed(m, grants[-1], self.read - 1, f"granted_{slot}_{name}", reset_less=False))
            taken = self.build_taken(m, name, slot, walker, port.data)
            with m.If(has_word):
                m.d.sync += word.eq(taken)
            self.build_element(m, name, slot, walker, word, port.data, has_word)
        m.d.comb += is_granted.eq(Cat(grants).any())
        m.d.sync += is_kept.eq((is_kept | is_granted) & ~issues)
        m.d.comb += getattr(datapath, f"source_{slot}").eq(word)
        return ~is_used | is_kept | is_granted

    def build_taken(self, m: Module, name: str, slot: int, walker: ChipWalker, came: Value) -> Value:
        """Of words that came, what the datapath takes: all, or the part of each that the iteration is of."""
        parts, bits = self.engine.vector.parts, word_bits(self.machine, self.engine, name)
        if parts == 1:
            return came
        word = 8 * self.machine.memories[name].word_bytes
        of_parts = [
            Cat(came[first + part * bits :][:bits] for first in range(0, len(came), word)) for part in range(parts)
        ]
        left = delayed(m, walker.part, self.read, f"part_{slot}_{name}")
        part = Signal(len(of_parts[0]), name=f"part_of_{slot}_{name}")
        build_part(m, of_parts, left, part)
        return part

    def build_element(
        self, m: Module, name: str, slot: int, walker: ChipWalker, word: Signal, came: Value, has_word: Signal
    ) -> None:
        """Of a vector that is multiplied element by element, keep that of the row where the datapath takes it."""
        memory = self.machine.memories[name]
        vectors = [
            i for i, format in enumerate(self.formats)
            if (vector := multiplied_by_element(format)) is not None
            and format.streams.index(vector) == slot and vector.memory == name
        ]  # fmt: skip
        if not vectors or memory.width == 1:
            return
        bits, rows = memory.element.bits, memory.width
        element = Signal(bits, name=f"element_{slot}_{name}")
        left = delayed(m, walker.row, self.read, f"row_{slot}_{name}")
        with m.Switch(left):
            for row in range(rows):
                with m.Case(rows - 1 - row):
                    m.d.comb += element.eq(came[row * bits :][:bits])
        with m.If(has_word & delayed(m, walker.walk, self.read, f"walk_{slot}_{name}").matches(*vectors)):
            m.d.sync += word[:bits].eq(element)

    def build_operands(
        self, m: Module, walker: ChipWalker, datapath: VectorDatapath, issues: Signal, immediates: Signal
    ) -> None:
        """What goes with the operands to the datapath's first stage."""
        m.d.comb += [
            datapath.valid.eq(delayed(m, issues, self.operands, "valid", reset_less=False)),
            datapath.format.eq(self.delayed(m, walker.walk, self.operands, "format")),
            datapath.immediates.eq(self.delayed(m, immediates, self.operands, "immediates")),
            datapath.is_first.eq(self.delayed(m, walker.is_first["reduce"], self.operands, "is_first")),
        ]
        if self.engine.vector.parts > 1:
            m.d.comb += [
                datapath.is_last.eq(self.delayed(m, walker.is_last["reduce"], self.operands, "is_last")),
                datapath.part.eq(self.delayed(m, walker.part, self.operands, "part")),
            ]

    def delayed(self, m: Module, value: Value, cycles: int, name: str) -> Value:
        """`value` of `cycles` cycles ago, which nothing looks at unless an iteration is in flight."""
        return delayed(m, value, cycles, name, domain=self.payload)

    def build_lookups(self, m: Module, walker: ChipWalker, datapath: VectorDatapath) -> None:
        """Where the tables of the issued iteration begin, and the memories that they are in."""
        for slot, bits in table_address_bits(self.machine, self.engine).items():
            first = walker.address[_slot_name(slot)][:bits]
            m.d.comb += getattr(datapath, f"first_{slot}").eq(self.delayed(m, first, self.operands, f"first_{slot}"))
        for name in self.lookups:
            port = self.lookups[name]
            m.d.comb += [
                port.address.eq(getattr(datapath, f"lookup_{name}_address")),
                getattr(datapath, f"lookup_{name}_data").eq(port.data),
            ]
            if self.machine.has_gated_clocks:
                m.d.comb += port.enable.eq(getattr(datapath, f"lookup_{name}_enable"))

    def build_results(
        self, m: Module, walker: ChipWalker, datapath: VectorDatapath, issues: Signal, has_room: Signal
    ) -> None:
        """Write the oldest result; retire with an instruction's last; leave room for those that may have to wait."""
        address_bits = max(self.machine.memories[name].address_bits for name in self.targets)
        bits = self.engine.vector.parts * result_bits(self.machine, self.engine)
        place = {"address": unsigned(address_bits), "is_last": unsigned(1)}
        part = {"is_word": unsigned(1)} if self.engine.vector.parts > 1 else {}
        target = data.StructLayout({"format": walker.walk.shape(), **place, **part})
        kept = data.StructLayout({"memory": range(max(2, len(self.targets))), **place})
        layout = data.StructLayout({"word": unsigned(bits), "target": kept})
        can_wait = [i for i, format in enumerate(self.formats) if can_be_refused(self.machine, format)]
        m.submodules.queue = queue = ResultQueue(layout, vec_results(self.machine, self.engine) if can_wait else 0)
        gives_result, issued_target = Signal(), Signal(target)
        m.d.comb += [
            gives_result.eq(issues & walker.is_last["word" if part else "reduce"]),
            issued_target.format.eq(walker.walk),
            issued_target.address.eq(walker.address[DESTINATION]),
            issued_target.is_last.eq(walker.last),
            queue.taken.eq(Cat(self.build_write(m, name, queue) for name in self.targets).any()),
            self.retire.eq(queue.taken & queue.oldest.target.is_last),
        ]
        # Results that can be refused, from issue to write. One that cannot must not come behind them.
        outstanding = Signal(range(vec_results(self.machine, self.engine) + 1))
        refusing = {self.formats[i].destination.memory for i in can_wait}
        comes = walker.walk.matches(*can_wait)
        goes = queue.oldest.target.memory.matches(*(self.targets.index(name) for name in sorted(refusing)))
        m.d.sync += outstanding.eq(outstanding + (gives_result & comes) - (queue.taken & goes))
        m.d.comb += has_room.eq(Mux(comes, outstanding < vec_results(self.machine, self.engine), outstanding == 0))
        if not part:
            m.d.comb += queue.result.word.eq(datapath.result)
            m.d.comb += queue.arrives.eq(self.build_arrival(m, queue, gives_result, issued_target))
            return
        gives_part = Signal()
        m.d.comb += [gives_part.eq(issues & walker.is_last["reduce"]), issued_target.is_word.eq(gives_result)]
        m.submodules.joined = joined = JoinedParts(self.engine.vector.parts, len(datapath.result))
        m.d.comb += [
            joined.arrives.eq(self.build_arrival(m, queue, gives_part, issued_target, joined)),
            joined.part.eq(datapath.result),
            queue.result.word.eq(joined.word),
        ]

    def build_arrival(
        self,
        m: Module,
        queue: ResultQueue,
        gives_result: Signal,
        issued_target: data.View,
        joined: JoinedParts | None = None,
    ) -> Value:
        """Where a result goes comes with it: chosen a cycle before, of the formats of all lengths, into a register.

        Return whether one arrives. If it is of a part, a word does with the last one.
        """
        coming, where, target = Signal(), Signal(queue.result.target.shape()), issued_target.shape()
        is_word, is_same = Signal(), Signal()
        arrives, arriving, passed = gives_result, issued_target.as_value(), 0
        for stages, positions in formats_by_stages(self.formats).items():
            before = self.operands + stages - 1
            arrives = delayed(m, arrives, before - passed, f"arrives_{stages}", reset_less=False)
            arriving, passed = self.delayed(m, arriving, before - passed, f"target_{stages}"), before
            comes = data.View(target, arriving)
            with m.If(arrives & comes.format.matches(*positions)):
                m.d.comb += [coming.eq(1), where.address.eq(comes.address), where.is_last.eq(comes.is_last)]
                with m.Switch(comes.format):
                    for position in positions:
                        memory = self.formats[position].destination.memory
                        with m.Case(position):
                            m.d.comb += where.memory.eq(self.targets.index(memory))
                if joined is not None:
                    across = [position for position in positions if is_same_in_all_lanes(self.formats[position])]
                    m.d.comb += [is_word.eq(comes.is_word), is_same.eq(comes.format.matches(*across))]
        m.d.comb += queue.result.target.eq(self.delayed(m, where.as_value(), 1, "target"))
        if joined is not None:
            m.d.comb += queue.arrives.eq(delayed(m, is_word, 1, "word_arrives", reset_less=False))
            m.d.comb += joined.is_same.eq(delayed(m, is_same, 1, "is_same"))
        return delayed(m, coming, 1, "arrives", reset_less=False)

    def build_write(self, m: Module, name: str, queue: ResultQueue) -> Value:
        """Ask for the oldest result's write if it goes to a memory; return whether it is written."""
        port, memory = getattr(self, f"write_{name}"), self.machine.memories[name]
        share = result_element_bits(self.machine, self.engine)
        elements = [queue.oldest.word[lane * share :][: memory.element.bits] for lane in range(self.engine.vector.word)]
        m.d.comb += [port.address.eq(queue.oldest.target.address), port.data.eq(Cat(elements))]
        m.d.comb += port.valid.eq(queue.valid & (queue.oldest.target.memory == self.targets.index(name)) & ~self.halt)
        return port.valid & port.granted


DESTINATION = "destination"
"""The walker's slot of the word that is written."""


def _slot_name(slot: int) -> str:
    return f"source{slot}"


def vector_walks(machine: Machine, engine: Engine) -> list[FormatWalk]:
    """What a vector engine walks of its instructions, a slot for each source and one for the destination."""
    return [whole_walk(format, _operands_by_slot(format)) for format in machine.formats_of(engine)]


def _operands_by_slot(format: InstructionFormat) -> Mapping[str, Operand]:
    sources = {_slot_name(i): source for i, source in enumerate(vector_walk(format).sources)}
    return {**sources, DESTINATION: format.destination}
