"""Iterations of a loop nest from registers: what is ahead is worked out, and checked, before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amaranth.hdl import Const, Elaboratable, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.machine import Machine
from tilewright.rtl.interfaces import index_bits
from tilewright.rtl.nest import FormatWalk, NestWalker, select_of_walk
from tilewright.rtl.outline import outlined


class NestAhead(wiring.Component):
    """As `NestWalker`, with the current iteration in registers and, perhaps, the next one behind it.

    `valid` says that there is one; of an instruction that starts in cycle t, from t+2 on. `step` moves to the next one
    and comes only while it is valid. The walker goes on whenever the second place is free, as registered: it does not
    wait for `step` of the same cycle, and still gives one each cycle. `start` comes only while it is `ready`: the last
    iteration of the instruction before is in its place, or goes there. `index` is that which came with `start`.
    """

    def __init__(self, machine: Machine, walks: Sequence[FormatWalk]) -> None:
        self.machine = machine
        self.walker = walker = NestWalker(machine, walks)
        self.walks, self.slots, self.groups = walker.walks, walker.slots, walker.groups
        self.kept = {
            name: member.shape
            for name, member in walker.signature.members.items()
            if member.flow is Out and not name.startswith(("following_", "fault_address"))
        }
        self.kept["index"] = unsigned(index_bits(machine))
        super().__init__(
            {
                "bits": In(walker.bits.shape()),
                "start": In(1),
                "started_index": In(index_bits(machine)),
                "ready": Out(1),
                "step": In(1),
                "valid": Out(1),
                **{name: Out(shape) for name, shape in self.kept.items()},
                "fault_address": Out(walker.fault_address.shape()),
            }
        )
        self.address = {slot: getattr(self, f"address_{slot}") for slot in self.slots}
        self.is_bad = {slot: getattr(self, f"is_bad_{slot}") for slot in self.slots}
        self.is_first = {group: getattr(self, f"is_first_{group}") for group in self.groups}
        self.is_last = {group: getattr(self, f"is_last_{group}") for group in self.groups}

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        layout = data.StructLayout(self.kept)
        current, second = (Signal(layout, name=name, reset_less=True) for name in ("current", "second"))
        found = Signal(layout, name="found")
        is_walking, has_second, gives = Signal(name="is_walking"), Signal(name="has_second"), Signal(name="gives")
        has_place = self.step | ~self.valid  # for what comes next, as the current one
        m.submodules.behind = self.build_walker(found, gives)
        m.d.comb += [
            gives.eq(is_walking & ~has_second),
            self.ready.eq(~is_walking | (gives & found.last)),
            *(getattr(self, name).eq(current[name]) for name in self.kept),
            self.fault_address.eq(self.first_bad()),
        ]
        with m.If(has_place):
            m.d.sync += [current.eq(Mux(has_second, second, found)), has_second.eq(0)]
            m.d.sync += self.valid.eq(has_second | gives)
        with m.Elif(gives):
            m.d.sync += has_second.eq(1)
        with m.If(~has_second):
            m.d.sync += second.eq(found)
        with m.If(gives & found.last):
            m.d.sync += is_walking.eq(0)
        with m.If(self.start):
            m.d.sync += is_walking.eq(1)
        return m

    def build_walker(self, found: data.View, gives: Signal) -> Module:
        """What gives the iterations, and the index of the instruction that they are of: a module with names apart."""
        m = Module()
        m.submodules.walker = walker = self.walker
        index = Signal.like(self.index, name="walked_index", reset_less=True)
        m.d.comb += [
            walker.bits.eq(self.bits),
            walker.start.eq(self.start),
            walker.step.eq(gives),
            *(found[name].eq(index if name == "index" else getattr(walker, name)) for name in self.kept),
        ]
        with m.If(self.start):
            m.d.sync += index.eq(self.started_index)
        return m

    def slot_shape(self, slot: str) -> Shape:
        return self.walker.slot_shape(slot)

    def select(self, m: Module, target: Value, value_of: Callable[[FormatWalk], Value]) -> None:
        """Drive a signal with the value for the current instruction's format."""
        select_of_walk(m, self.walks, self.walk, target, value_of)

    def first_bad(self) -> Value:
        """The address of the first bad slot, as that of a walker; any if there is none."""
        address: Value = Const(0)
        for slot in reversed(self.slots):
            address = Mux(self.is_bad[slot], self.address[slot], address)
        return address


ChipWalker = NestWalker | NestAhead
"""What walks where an engine asks for words on chip."""


def chip_walker(machine: Machine, walks: Sequence[FormatWalk]) -> ChipWalker:
    """The one that `pipeline.check` asks for."""
    return NestAhead(machine, walks) if machine.pipeline.check else NestWalker(machine, walks)


def has_iteration(walker: ChipWalker, is_active: Value) -> Value:
    """Whether a walker shows an iteration of its instruction, while one is active."""
    return is_active & walker.valid if isinstance(walker, NestAhead) else is_active
