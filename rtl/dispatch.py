"""Dispatch: assembles instructions, checks them, queues them for their engines, starts them when their waits end."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import OPCODE_BITS
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.assembler import Assembler, ProgramBeat
from tilewright.rtl.delay import delayed
from tilewright.rtl.fifo import Fifo, ShownFifo
from tilewright.rtl.interfaces import FaultSignature, KeptInstruction, index_bits, instruction_stream
from tilewright.rtl.kept_bits import KeptBits, kept_bits
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.outline import outlined


class HeadStatus(data.StructLayout):
    """What an engine's queue shows the counters: whether it holds an instruction, and for which engines it waits."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({"is_present": unsigned(1), "waits_for": unsigned(len(machine.engines))})


class Dispatch(wiring.Component):
    """Turns the program's beats into instructions that their engines may start.

    An instruction is pushed into its engine's queue when that has room; one that the machine does not have, or that
    waits for an instruction not earlier in the program, is a fault. At the head of a queue it is offered to the engine
    once every completion count has reached its wait count. `is_done`: all of the program was dispatched and completed.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.engines = tuple(machine.engines.values())
        self.kept = [queue_bits(machine, engine) for engine in self.engines]
        count = len(self.engines)
        super().__init__(
            {
                "beats": In(stream.Signature(ProgramBeat(machine))),
                "is_fetched": In(1),  # all beats of the program were given
                "halt": In(1),
                "instructions": Out(instruction_stream(machine)).array(count),  # for each engine, by its number
                "retires": In(1).array(count),
                "heads": Out(HeadStatus(machine)).array(count),
                "fault": Out(FaultSignature()),
                "is_done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        dispatched = [Signal(self.machine.wait_bits, name=f"{e}_dispatched") for e in self.engines]
        completed = [Signal(self.machine.wait_bits, name=f"{e}_completed") for e in self.engines]
        queues = [instruction_queue(self.machine, e) for e in self.engines]
        for engine, queue in zip(self.engines, queues, strict=True):
            m.submodules[f"{engine}_queue"] = queue
        m.submodules.assembler = assembler = Assembler(self.machine)
        wiring.connect(m, wiring.flipped(self.beats), assembler.beats)
        self.build_push(m, assembler, queues, dispatched)
        for engine, queue, done, retires in zip(self.engines, queues, completed, self.retires, strict=True):
            self.build_start(m, engine, queue, completed)
            m.d.sync += done.eq(done + retires)
        all_completed = Cat(asked == done for asked, done in zip(dispatched, completed, strict=True)).all()
        m.d.comb += self.is_done.eq(self.is_fetched & ~assembler.output.valid & all_completed)
        return m

    def build_push(self, m: Module, assembler: Assembler, queues: Sequence[Fifo], dispatched: Sequence[Signal]) -> None:
        index = Signal(index_bits(self.machine))
        bits, is_full = assembler.output.payload.bits, assembler.output.valid & ~self.halt
        is_refused = self.build_fault(m, assembler, index, dispatched)
        with m.If(is_full & ~is_refused), m.Switch(self.opcode(bits)):
            for engine, queue, count in zip(self.engines, queues, dispatched, strict=True):
                opcodes = [f.opcode for f in self.machine.formats_of(engine)]
                if not opcodes:
                    continue
                with m.Case(*opcodes):
                    m.d.comb += [queue.input.valid.eq(1), assembler.output.ready.eq(queue.input.ready)]
                    m.d.sync += count.eq(count + queue.input.ready)
        for kept, queue in zip(self.kept, queues, strict=True):
            m.d.comb += [queue.input.payload.bits.eq(kept.pack(bits)), queue.input.payload.index.eq(index)]
        m.d.sync += index.eq(index + (assembler.output.valid & assembler.output.ready))

    def build_fault(self, m: Module, assembler: Assembler, index: Signal, dispatched: Sequence[Signal]) -> Signal:
        """Whether the oldest instruction is refused; it stays then, so that the fault may be shown later."""
        bits = assembler.output.payload.bits
        code, address = self.fault.payload.code, self.fault.payload.address
        known = [f.opcode for f in self.machine.formats.values()]
        for engine in reversed(self.engines):
            with m.If(self.wait_count(bits, engine) > dispatched[engine.number]):
                m.d.comb += [code.eq(FaultCode.WAIT), address.eq(self.wait_count(bits, engine))]
        with m.If(~self.opcode(bits).matches(*known)):
            m.d.comb += [code.eq(FaultCode.OPCODE), address.eq(self.opcode(bits))]
        with m.If(assembler.output.payload.error):
            m.d.comb += [code.eq(FaultCode.BUS), address.eq(0)]
        stages = self.machine.pipeline.halt
        is_refused = Signal(name="is_refused") if stages else self.fault.valid
        m.d.comb += [
            self.fault.payload.instruction.eq(index),
            is_refused.eq(assembler.output.valid & ~self.halt & (code != FaultCode.NONE)),
        ]
        if stages:
            m.d.comb += self.fault.valid.eq(delayed(m, is_refused, stages, "refused", reset_less=False))
        return is_refused

    def build_start(self, m: Module, engine: Engine, queue: Fifo, completed: Sequence[Signal]) -> None:
        head, offered, shown = queue.output, self.instructions[engine.number], self.heads[engine.number]
        bits = self.kept[engine.number].unpack(head.payload.bits)
        waits_for = Signal(len(self.engines), name=f"{engine}_waits_for")
        m.d.comb += [
            waits_for.eq(Cat(completed[e.number] < self.wait_count(bits, e) for e in self.engines)),
            offered.valid.eq(head.valid & (waits_for == 0) & ~self.halt),
            offered.payload.bits.eq(bits),
            offered.payload.index.eq(head.payload.index),
            head.ready.eq(offered.valid & offered.ready),
            shown.is_present.eq(head.valid),
            shown.waits_for.eq(Mux(head.valid, waits_for, 0)),
        ]

    def opcode(self, bits: Value) -> Value:
        return bits[:OPCODE_BITS]

    def wait_count(self, bits: Value, engine: Engine) -> Value:
        """Opcode and wait counts are at the same place in every format."""
        any_format = next(iter(self.machine.formats.values()))
        return instruction_view(any_format, bits)[f"wait.{engine}"]


def queue_bits(machine: Machine, engine: Engine) -> KeptBits:
    """What an engine's queue keeps of its instructions."""
    return kept_bits(machine.formats_of(engine), 8 * machine.longest_instruction_bytes)


def instruction_queue(machine: Machine, engine: Engine) -> Fifo:
    """With `pipeline.start`, its oldest instruction is in a register."""
    kind = ShownFifo if machine.pipeline.start else Fifo
    return kind(KeptInstruction(machine, queue_bits(machine, engine)), engine.queue_depth)
