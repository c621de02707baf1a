"""What walks through an instruction of the matrix engine: rows of its weight tiles, and its activation vectors."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import (
    is_transposing,
    systolic_activations,
    systolic_weights,
    tile_loops,
)
from tilewright.isa.timing import MMA_WEIGHT_LEAD, mma_sum, mma_update
from tilewright.rtl.bounds import is_outside
from tilewright.rtl.delay import delayed
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.memory import bank_of
from tilewright.rtl.nest import FormatWalk, NestWalker
from tilewright.rtl.nest_ahead import chip_walker, has_iteration


class WeightReader(wiring.Component):
    """Reads the weight tiles of an instruction, a row a cycle, at most one tile ahead of the vectors.

    `allows_next` comes with the first vector of a tile: from the next cycle on, the next tile may be read.
    `reads_last` is the read of the instruction's last row. `transposes`, on a machine that can: the rows that are read
    are for the transpose of their tile. A bad row raises `fault` in place of its read.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(engine)
        self.can_transpose = any(map(is_transposing, self.formats))
        self.walks = [
            FormatWalk(format, format.loops[: tile_loops(format)], {"w": systolic_weights(format)})
            for format in self.formats
        ]
        self.memory = machine.memories[self.walks[0].operands["w"].memory]
        self.walker = NestWalker(machine, self.walks)
        super().__init__(
            {
                "start": In(1),
                "bits": In(self.walker.bits.shape()),
                "halt": In(1),
                "allows_next": In(1),
                "is_active": Out(1),
                "reads": Out(1),
                "reads_last": Out(1),
                "is_first_row": Out(1),
                **({"transposes": Out(1)} if self.can_transpose else {}),
                "address": Out(unsigned(self.memory.address_bits)),
                "fault": Out(1),
                "fault_address": Out(Shape(self.walker.slot_shape("w").width + 1, signed=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        row, may_begin = Signal(range(self.engine.array.rows), name="row"), Signal(name="may_begin")
        asks, is_last_row = Signal(), Signal()
        m.d.comb += [
            walker.start.eq(self.start),
            walker.bits.eq(self.bits),
            walker.step.eq(self.reads & is_last_row),
            self.is_first_row.eq(row == 0),
            is_last_row.eq(row == self.engine.array.rows - 1),
            self.fault_address.eq(walker.address["w"] + row),
            self.address.eq(self.fault_address),
            asks.eq(self.is_active & (~self.is_first_row | may_begin) & ~self.halt),
            self.fault.eq(asks & is_outside(self.fault_address, self.memory, 1)),
            self.reads.eq(asks & ~self.fault),
            self.reads_last.eq(self.reads & is_last_row & walker.last),
        ]
        with m.If(self.reads):
            m.d.sync += row.eq(Mux(is_last_row, 0, row + 1))
            with m.If(self.is_first_row):
                m.d.sync += may_begin.eq(0)
        with m.If(self.reads_last):
            m.d.sync += self.is_active.eq(0)
        with m.If(self.allows_next):
            m.d.sync += may_begin.eq(1)
        with m.If(self.start):
            m.d.sync += [self.is_active.eq(1), may_begin.eq(1)]
            if self.can_transpose:
                self.build_orientation(m)
        return m

    def build_orientation(self, m: Module) -> None:
        with m.Switch(instruction_view(self.formats[0], self.bits)[OPCODE]):
            for format in self.formats:
                with m.Case(format.opcode):
                    m.d.sync += self.transposes.eq(is_transposing(format))


class VectorIssuer(wiring.Component):
    """Asks for the activation vectors of an instruction in the order of its nest; one issues when it is granted.

    `tile_begins` comes with the read of a tile's first weight row. `adds`: the vector's sums are added to what the
    accumulators hold. A bad address of the vector or of its sums raises `fault` in place of asking. Where banks of sums
    have one port, `waits_for_sums`: the vector does not ask yet, since it would read its sums where others are written.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(engine)
        self.walker = chip_walker(machine, [self.walk(position) for position in range(len(self.formats))])
        self.blocks = [format.destination.block for format in self.formats]
        self.has_mask = len(set(self.blocks)) > 1
        self.sums = machine.memories[self.formats[0].destination.memory]
        self.may_wait_for_sums = self.sums.has_one_port
        super().__init__(
            {
                **({"words": Out(unsigned(max(self.blocks)))} if self.has_mask else {}),
                **({"waits_for_sums": Out(1)} if self.may_wait_for_sums else {}),
                "start": In(1),
                "bits": In(self.walker.bits.shape()),
                "halt": In(1),
                "tile_begins": In(1),
                "granted": In(1),
                "is_active": Out(1),
                "asks": Out(1),
                "issues": Out(1),
                "issues_last": Out(1),
                "is_first_of_tile": Out(1),
                "adds": Out(1),
                "activations_address": Out(self.walker.slot_shape("a")),
                "sums_address": Out(self.walker.slot_shape("c")),
                "fault": Out(1),
                "fault_address": Out(self.walker.fault_address.shape()),
            }
        )

    def walk(self, position: int) -> FormatWalk:
        format = self.formats[position]
        groups = {
            "reduce": frozenset(format.reduce_loops),
            "tile": frozenset(loop.name for loop in format.loops[tile_loops(format) :]),
        }
        return FormatWalk(format, format.loops, {"a": systolic_activations(format), "c": format.destination}, groups)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        accumulates, may_ask = Signal(name="accumulates", reset_less=True), Signal()
        asks = may_ask & ~walker.fault
        is_there = has_iteration(walker, self.is_active)
        m.d.comb += [
            walker.start.eq(self.start),
            walker.bits.eq(self.bits),
            walker.step.eq(self.issues),
            may_ask.eq(is_there & (~self.is_first_of_tile | self.build_tile_rules(m)) & ~self.halt),
            self.fault.eq(may_ask & walker.fault),
            self.fault_address.eq(walker.fault_address),
            self.asks.eq(asks & ~self.waits_for_sums if self.may_wait_for_sums else asks),
            self.issues.eq(self.asks & self.granted),
            self.issues_last.eq(self.issues & walker.last),
            self.is_first_of_tile.eq(walker.is_first["tile"]),
            self.adds.eq(accumulates | ~walker.is_first["reduce"]),
            self.activations_address.eq(walker.address["a"]),
            self.sums_address.eq(walker.address["c"]),
        ]
        if self.may_wait_for_sums:
            m.d.comb += self.waits_for_sums.eq(asks & self.adds & self.build_is_bank_written(m))
        if self.has_mask:
            walker.select(m, self.words, lambda walk: Const((1 << walk.operands["c"].block) - 1))
        with m.If(self.issues_last):
            m.d.sync += self.is_active.eq(0)
        with m.If(self.start):
            m.d.sync += self.is_active.eq(1)
            with m.Switch(instruction_view(self.formats[0], self.bits)[OPCODE]):
                for format in self.formats:
                    flag = instruction_view(format, self.bits)[ACCUMULATE] if format.has_accumulate else 0
                    with m.Case(format.opcode):
                        m.d.sync += accumulates.eq(flag)
        return m

    def build_is_bank_written(self, m: Module) -> Value:
        """Whether the bank of this vector's sums is written when it would read them: by the vector `mma_sum` before."""
        bank = bank_of(self.sums, self.sums_address[: self.sums.address_bits])
        cycles = mma_sum(self.engine.array)
        written = delayed(m, bank, cycles, "bank_of_sums")
        return delayed(m, self.issues, cycles, "has_issued", reset_less=False) & (written == bank)

    def build_tile_rules(self, m: Module) -> Value:
        """Whether the first vector of a tile may ask: its weights are on their way, and the last tile's sums as well.

        The latter takes `mma_update` cycles from a vector to the next tile's at the same place; a shorter tile waits.
        """
        has_weights = Signal()
        with m.If(self.issues & self.is_first_of_tile):
            m.d.sync += has_weights.eq(0)
        with m.If(delayed(m, self.tile_begins, MMA_WEIGHT_LEAD - 1, "tile_begins", reset_less=False)):
            m.d.sync += has_weights.eq(1)

        enough = mma_update(self.engine.array)
        before, pause = Signal(range(enough + 1)), Signal(range(enough + 1))
        issued = Signal(range(enough + 2))  # vectors of this tile with the current one
        m.d.comb += issued.eq(Mux(before == enough, enough, before + 1))
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.issues):
            m.d.sync += before.eq(issued)
            with m.If(self.walker.is_last["tile"]):
                m.d.sync += [before.eq(0), pause.eq(enough - issued)]
        with m.If(self.start):
            m.d.sync += [before.eq(0), pause.eq(0)]
        return has_weights & (pause == 0)
