"""The matrix engine: streams activation vectors through the array and adds their sums to the accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.systolic import (
    is_transposing,
    systolic_activations,
    systolic_weights,
)
from tilewright.isa.timing import memory_read, mma_read, mma_write
from tilewright.rtl.arrays import array_names, element_of, plain_type, systolic_arrays, weight_elements
from tilewright.rtl.delay import delayed
from tilewright.rtl.gating import clocked_in_flight, payload_domain, with_payload
from tilewright.rtl.interfaces import Activity, engine_members, index_bits, takes_next
from tilewright.rtl.layout import PLAIN, integer_shape, stored, word_layout
from tilewright.rtl.mma_walkers import VectorIssuer, WeightReader
from tilewright.rtl.outline import outlined
from tilewright.rtl.ports import read_members, write_members
from tilewright.rtl.systolic import SystolicArray


class MmaEngine(wiring.Component):
    """Runs the instructions of a systolic engine, as docs/microarchitecture.md tells cycle by cycle.

    `a` reads activation vectors, `w` rows of weight tiles; `c_read` and `c_write` move sums. All but `a` must be
    granted whenever they ask. All formats of the engine have the same memories; the weights may be of several types.

    A word of narrow weights has elements for several sums of each column. So there is an array for each: the first
    takes the elements from the start of a word on, of all types, and the others what is behind them, of narrow types.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine
        self.formats = machine.formats_of(engine)
        self.read = memory_read(machine.pipeline)
        self.payload = payload_domain(machine)
        members: dict[str, In | Out] = engine_members(machine)
        if self.formats:
            format = self.formats[0]
            a, w = systolic_activations(format), systolic_weights(format)
            members |= {**read_members(machine, engine), **write_members(machine, engine)}
            self.activations, self.weights = a, w
            self.sums = max((each.destination for each in self.formats), key=lambda each: each.block)
            self.has_mask = len({each.destination.block for each in self.formats}) > 1
            self.can_transpose = any(map(is_transposing, self.formats))
            self.tiles, self.vectors = WeightReader(machine, engine), VectorIssuer(machine, engine)
        super().__init__(members)

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if not self.formats:
            return m
        m.submodules.tiles = tiles = self.tiles
        m.submodules.vectors = vectors = self.vectors
        arrays = systolic_arrays(self.machine, self.engine)
        for name, array in zip(array_names(self.machine, self.engine), arrays, strict=True):
            m.submodules[name] = with_payload(self.machine, array)
        self.build_start(m, tiles, vectors)
        self.build_reads(m, tiles, vectors, arrays)
        self.build_weights(m, tiles, arrays)
        self.build_sums(m, vectors, arrays)
        return clocked_in_flight(self.machine, m, tiles.reads | vectors.issues, mma_write(self.engine.array))

    def build_start(self, m: Module, tiles: WeightReader, vectors: VectorIssuer) -> None:
        """Take an instruction, tell what the engine does, and stop at a bad access."""
        index, is_active = Signal(index_bits(self.machine), reset_less=True), Signal()
        stages = self.engine.pipeline.halt
        is_of_vectors = delayed(m, vectors.fault, stages, "is_of_vectors")
        of_vectors = delayed(m, vectors.fault_address, stages, "vector_address")
        of_tiles = delayed(m, tiles.fault_address, stages, "row_address")
        ends = vectors.issues_last & (~tiles.is_active | tiles.reads_last)
        m.d.comb += [
            is_active.eq(tiles.is_active | vectors.is_active),
            self.instruction.ready.eq(takes_next(self.engine, is_active, ends) & ~self.halt),
            self.fault.valid.eq(delayed(m, tiles.fault | vectors.fault, stages, "is_bad", False)),
            self.fault.payload.code.eq(FaultCode.ADDRESS),
            self.fault.payload.instruction.eq(index),
            self.fault.payload.address.eq(Mux(is_of_vectors, of_vectors, of_tiles)),
        ]
        for unit in (tiles, vectors):
            m.d.comb += [
                unit.start.eq(self.instruction.valid & self.instruction.ready),
                unit.bits.eq(self.instruction.payload.bits),
                unit.halt.eq(self.halt),
            ]
        with m.If(tiles.start):
            m.d.sync += index.eq(self.instruction.payload.index)
        with m.If(vectors.issues):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(self.a.valid | vectors.waits_for_sums if vectors.may_wait_for_sums else self.a.valid):
            m.d.comb += self.activity.eq(Activity.STALL_PORT)
        with m.Elif(is_active):
            m.d.comb += self.activity.eq(Activity.STALL_WEIGHTS)

    def build_reads(
        self, m: Module, tiles: WeightReader, vectors: VectorIssuer, arrays: Sequence[SystolicArray]
    ) -> None:
        """Words go from the memories straight into the array; what comes with them was decided when they were read."""
        vector = data.View(
            word_layout(self.machine.memories[self.activations.memory], self.activations.block), self.a.data
        )
        m.d.comb += [
            self.w.valid.eq(tiles.reads),
            self.w.address.eq(tiles.address),
            self.a.valid.eq(vectors.asks),
            self.a.address.eq(vectors.activations_address),
            vectors.granted.eq(self.a.granted),
            tiles.allows_next.eq(vectors.issues & vectors.is_first_of_tile),
            vectors.tile_begins.eq(tiles.reads & tiles.is_first_row),
        ]
        loads = delayed(m, vectors.tile_begins, self.read, "loads", reset_less=False)
        is_first = delayed(m, tiles.allows_next, self.read, "is_first", reset_less=False)
        for array in arrays:
            m.d.comb += [
                array.loads.eq(loads),
                array.is_first.eq(is_first),
                *(array.vector[r].eq(vector[r][PLAIN]) for r in range(self.engine.array.rows)),
            ]
        if self.can_transpose:
            m.d.comb += arrays[0].transposes.eq(self.delayed(m, tiles.transposes, self.read, "transposes"))

    def delayed(self, m: Module, value: Value, cycles: int, name: str) -> Value:
        """`value` of `cycles` cycles ago, which nothing looks at unless something is in flight."""
        return delayed(m, value, cycles, name, domain=self.payload)

    def build_weights(self, m: Module, tiles: WeightReader, arrays: Sequence[SystolicArray]) -> None:
        """The elements of a word go to the arrays as the instruction says whose tile it is."""
        cols, is_one = self.engine.array.cols, len(weight_elements(self.machine, self.engine)) == 1
        walk = Const(0) if is_one else self.delayed(m, tiles.walker.walk, self.read, "weights_of")
        for position, array in enumerate(arrays):
            for c in range(cols):
                value = self.element(walk, position * cols + c, array.weight)
                m.d.comb += array.weights[c].eq(value)

    def element(self, walk: Value, position: int, to: IntegerType) -> Value:
        """An element of the word that was read, of the type that an instruction reads it as; any where it has none."""
        chosen: Value | None = None
        for element in weight_elements(self.machine, self.engine):
            if position * element.bits < len(self.w.data):
                own = [at for at, each in enumerate(self.formats) if systolic_weights(each).element == element]
                is_own = Cat(walk == at for at in own).any()
                value = element_of(self.w.data, element, position, to)
                chosen = value if chosen is None else Mux(is_own, value, chosen)
        assert chosen is not None, "an array has a column for each"
        return chosen

    def build_sums(self, m: Module, vectors: VectorIssuer, arrays: Sequence[SystolicArray]) -> None:
        """Read the accumulators; in the cycle after they come, add the array's sums to them and write."""
        read_delay, write_delay = mma_read(self.engine.array), mma_write(self.engine.array)
        address_bits = self.machine.memories[self.sums.memory].address_bits
        parts = {"address": unsigned(address_bits), "is_last": unsigned(1), "adds": unsigned(1)}
        if self.has_mask:
            parts["words"] = unsigned(self.sums.block)
        target = data.StructLayout(parts)
        issued = Signal(target)
        m.d.comb += [
            issued.address.eq(vectors.sums_address),
            issued.is_last.eq(vectors.issues_last),
            issued.adds.eq(vectors.adds),
        ]
        if self.has_mask:
            m.d.comb += issued.words.eq(vectors.words)
        is_at_read = delayed(m, vectors.issues, read_delay, "is_at", reset_less=False)
        is_at_write = delayed(m, is_at_read, write_delay - read_delay, "is_at_write", reset_less=False)
        at_read = self.delayed(m, issued.as_value(), read_delay, "at")
        at_write = self.delayed(m, at_read, write_delay - read_delay, "at_write")
        reading, writing = data.View(target, at_read), data.View(target, at_write)
        m.d.comb += [
            self.c_read.valid.eq(is_at_read & reading.adds & ~self.halt),
            self.c_read.address.eq(reading.address),
            self.c_write.valid.eq(is_at_write & ~self.halt),
            self.c_write.address.eq(writing.address),
            self.retire.eq(self.c_write.valid & writing.is_last),
        ]
        if self.has_mask:
            m.d.comb += self.c_write.words.eq(writing.words)
        adds = self.delayed(m, reading.adds, self.read, "adds")
        sums = self.build_additions(m, arrays, adds, read_delay - arrays[0].latency)
        m.d.comb += self.c_write.data.eq(self.delayed(m, Cat(sums), write_delay - read_delay - self.read - 1, "sums"))

    def build_additions(self, m: Module, arrays: Sequence[SystolicArray], adds: Value, wait: int) -> list[Value]:
        """The sum of each column: the array's, plus the accumulator if `adds`, wrapped into the type of the sums.

        A word of the memory takes most of a cycle to come, so it goes into a register before it is added to.
        """
        element = self.sums.element
        memory = self.machine.memories[self.sums.memory]
        came = data.View(word_layout(memory, self.sums.block), self.c_read.data)
        sums = []
        for c, dot_sum in enumerate(dot_sum for array in arrays for dot_sum in array.sums):
            old = Signal(integer_shape(plain_type(element)), name=f"old_{c}", reset_less=True)
            total = Signal.like(old, name=f"total_{c}")
            dot = self.delayed(m, dot_sum, wait + 1, f"dot_{c}")
            m.d[self.payload] += old.eq(Mux(adds, came[c][PLAIN], 0))
            m.d.comb += total.eq(dot + old)
            sums.append(stored(total, element))
        return sums
