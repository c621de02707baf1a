"""The fast simulator of values: one array operation an instruction, equal to the interpreter in every byte.

An instruction's addresses do not depend on data, so a program is prepared once: every operand becomes a strided view of
its memory, and every fault is found. A run is then a handful of numpy calls an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, InstructionFormat, Operand
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.memory import DRAM, Element
from tilewright.isa.machine.products import adds_product
from tilewright.isa.program.faults import Fault, MachineFault
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import MachineState, initial_state
from tilewright.isa.templates.dma import chip_operand, dram_operand
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights
from tilewright.simulator.access_faults import access_fault, wait_fault
from tilewright.simulator.interpreter import interpret_instruction
from tilewright.simulator.matrix_product import MatrixProduct
from tilewright.simulator.nest import AddressWalk, last_writers, walk_of
from tilewright.simulator.one_thread import one_thread
from tilewright.simulator.regions import check_dram_size, region, regions_of, required_bytes
from tilewright.simulator.statement_arrays import (
    ArrayStatement,
    StatementFacts,
    TableWords,
    as_stored,
    extract,
    storage_type,
    store,
)
from tilewright.simulator.walks import (
    feeds_itself,
    loop_roles,
    may_meet_apart,
    reordered,
    source_walk,
    walk_size,
)

Step = Callable[[], None]


def simulate_values(program: Program, dram: NDArray[np.uint8], bases: Mapping[str, int]) -> MachineState:
    """Run a program from reset. Raises MachineFault at the first instruction, in program order, that faults."""
    return PreparedProgram(program, bases).run(dram)


class PreparedProgram:
    """A program at fixed region bases, ready to run on any number of DRAM images.

    `fault` is the fault that every run ends with, or None.
    """

    def __init__(self, program: Program, bases: Mapping[str, int]) -> None:
        self._machine = program.machine
        self._regions = regions_of(program, bases)
        self._state = initial_state(program.machine, np.zeros(required_bytes(self._regions), np.uint8))
        self._stored: dict[tuple[str, Element], NDArray[Any]] = {}  # memories as elements
        self._facts: dict[str, StatementFacts] = {}  # of vector statements, by mnemonic
        self.fault: Fault | None = None
        self._steps: list[Step] = []
        dispatched = dict.fromkeys(program.machine.engines, 0)
        for index, instruction in enumerate(program.instructions):
            self.fault = wait_fault(instruction, dispatched, index) or access_fault(
                program.machine, instruction, self._regions, index
            )
            if self.fault is not None:
                break
            self._steps.append(self._prepare(instruction))
            dispatched[instruction.engine.name] += 1

    def run(self, dram: NDArray[np.uint8], memories: Mapping[str, NDArray[np.uint8]] | None = None) -> MachineState:
        """The state after a run from reset, or from the given memories; changes none of them. Raises MachineFault."""
        self._reset(dram, memories)
        with one_thread():
            for step in self._steps:
                step()
        result = dram.copy()
        result[: self._state.dram.size] = self._state.dram
        return MachineState({name: stored.copy() for name, stored in self._state.memories.items()}, result)

    def step_by_step(self, dram: NDArray[np.uint8]) -> Iterator[MachineState]:
        """The state after reset, then after each instruction. It is the live one: the next step goes on from what the
        caller makes of it, and its DRAM has only the regions. Raises MachineFault.
        """
        self._reset(dram, None)
        yield self._state
        for step in self._steps:
            with one_thread():
                step()
            yield self._state

    def _reset(self, dram: NDArray[np.uint8], memories: Mapping[str, NDArray[np.uint8]] | None) -> None:
        check_dram_size(dram.size, self._regions)
        if self.fault is not None:
            raise MachineFault(self.fault)
        for name, stored in self._state.memories.items():
            stored[:] = 0 if memories is None else memories[name]
        self._state.dram[:] = dram[: self._state.dram.size]

    # -- preparing -----------------------------------------------------------------------------------------------------

    def _prepare(self, instruction: Instruction) -> Step:
        match instruction.engine.template:
            case Template.DMA:
                return self._prepare_move(instruction)
            case Template.SYSTOLIC:
                return self._prepare_product(instruction)
            case Template.VECTOR if instruction.format.statement.dot is not None:
                return self._prepare_product(instruction)
            case Template.VECTOR:
                return self._prepare_lanes(instruction)
            case unknown:
                assert_never(unknown)

    def _one_by_one(self, instruction: Instruction) -> Step:
        """For an instruction whose iterations depend on each other (the checker refuses it): the meaning itself."""
        return lambda: interpret_instruction(self._machine, instruction, self._state, self._regions)

    def _as_elements(self, operand: Operand) -> NDArray[Any]:
        """An operand's memory as [depth, width], with a last axis of parts for elements above 64 bits. Where elements
        share bytes, it is as [depth, bytes].
        """
        key = operand.memory, operand.element
        if key not in self._stored:
            held = self._state.memories[operand.memory]
            stored = held.view(storage_type(operand.element))
            wide = operand.element.bits > 64
            self._stored[key] = stored.reshape(len(held), -1, operand.element.bits // 64) if wide else stored
        return self._stored[key]

    def _view(self, operand: Operand, walk: AddressWalk, words: int = 1) -> NDArray[Any]:
        """An operand's memory seen along a walk: shape trips + (words · width, …)."""
        stored = self._as_elements(operand)
        word, *inner = stored.strides
        shape = (*walk.trips, words * stored.shape[1], *stored.shape[2:])
        return _strided(stored, walk.base * word, shape, (*(s * word for s in walk.strides), *inner))

    # -- dma -----------------------------------------------------------------------------------------------------------

    def _prepare_move(self, instruction: Instruction) -> Step:
        format = instruction.format
        is_load = format.sources[0].memory == DRAM
        outer, on_chip = dram_operand(format), chip_operand(format)
        size = self._machine.memories[on_chip.memory].word_bytes
        first = region(self._regions, instruction[f"{outer.name}.region"]).base
        in_dram, words = walk_of(instruction, outer, first), walk_of(instruction, on_chip)
        dram, memory = self._state.dram, self._state.memories[on_chip.memory]
        there = _strided(dram, in_dram.base, (*in_dram.trips, size), (*in_dram.strides, 1))
        strides = (*(s * size for s in words.strides), 1)
        here = _strided(memory, words.base * size, (*words.trips, size), strides)
        if is_load:
            if words.is_distinct(1):
                return lambda: np.copyto(here, there)
            addresses, winners = last_writers(words.addresses().ravel())
            return lambda: memory.__setitem__(addresses, there.reshape(-1, size)[winners])
        if in_dram.is_distinct(size):
            return lambda: np.copyto(there, here)
        at_bytes = in_dram.addresses().reshape(-1, 1) + np.arange(size)
        addresses, winners = last_writers(at_bytes.ravel())
        return lambda: dram.__setitem__(addresses, here.ravel()[winners])

    # -- vector --------------------------------------------------------------------------------------------------------

    def _prepare_lanes(self, instruction: Instruction) -> Step:
        format = instruction.format
        trips = tuple(instruction.trips.values())
        kept = len(trips) - len(format.reduce_loops)
        writes = walk_of(instruction, format.destination)
        for source in format.sources:
            if source.memory == format.destination.memory:
                if feeds_itself(walk_of(instruction, source), writes, kept, source.block):
                    return self._one_by_one(instruction)
        shape = (*trips, self._machine.lanes)
        facts = self._facts_of(format)
        statement = ArrayStatement(facts, shape, tuple(range(kept, len(trips))))
        sources = {
            (name, field, inside, word): (
                self._view(format.operand(name), source_walk(instruction, name, inside, kept, word)),
                format.operand(name).element,
            )
            for name, field, inside, word in facts.leaves
        }
        immediates = {name: instruction[name] for name in format.immediates}
        looked_up = {
            table: self._table_words(format.operand(table[0]), source_walk(instruction, *table, kept))
            for table in facts.tables
        }

        def result() -> NDArray[Any]:
            values = {
                leaf: extract(view, element, leaf[1], statement.type) for leaf, (view, element) in sources.items()
            }
            return statement.evaluate(values, immediates, looked_up)

        written = AddressWalk(writes.base, trips[:kept], writes.strides[:kept])
        if written.is_distinct(1):
            reduced = AddressWalk(writes.base, (*trips[:kept], *(1 for _ in trips[kept:])), writes.strides)
            destination = self._view(format.destination, reduced)
            return lambda: store(destination, result(), format.destination.element)
        addresses, winners = last_writers(written.addresses().ravel())
        stored, lanes = self._as_elements(format.destination), self._machine.lanes
        groups = (*trips[:kept], *(1 for _ in trips[kept:]), lanes)

        def write_last() -> None:
            whole = np.broadcast_to(result(), groups).reshape(-1, lanes)
            kept_last = as_stored(whole[winners], format.destination.element, stored.shape[1])
            stored[addresses] = kept_last.astype(stored.dtype)

        return write_last

    def _facts_of(self, format: InstructionFormat) -> StatementFacts:
        if format.mnemonic not in self._facts:
            self._facts[format.mnemonic] = StatementFacts(format.statement.expr)
        return self._facts[format.mnemonic]

    def _table_words(self, table: Operand, walk: AddressWalk) -> TableWords:
        return TableWords(self._as_elements(table), walk.addresses()[..., None], table.element)

    # -- products ------------------------------------------------------------------------------------------------------

    def _prepare_product(self, instruction: Instruction) -> Step:
        """One product of matrices: activations [vectors, reduced · rows] by weights [reduced · rows, tiles · cols].

        Loops that move both the activations and a tile that is not reduced are a batch of products.
        """
        format = instruction.format
        a, w, c = systolic_activations(format), systolic_weights(format), format.destination
        walks = {operand.name: walk_of(instruction, operand) for operand in (a, w, c)}
        reduced, batch, tiles, vectors = loop_roles(instruction, a, w)
        sums = reordered(walks[c.name], (*batch, *vectors, *tiles))
        if not sums.is_distinct(c.block) or self._may_feed_itself(walks, (a, w), c):
            return self._one_by_one(instruction)
        added = adds_product(format)
        if added is not None and may_meet_apart(walk_of(instruction, added), walks[c.name], added.memory == c.memory):
            return self._one_by_one(instruction)
        a_view = self._view(a, reordered(walks[a.name], (*batch, *vectors, *reduced)), a.block)
        w_view = self._weights_view(walks[w.name], w, batch, reduced, tiles)
        rows_axis = len(batch) + len(reduced) if is_transposing(format) else None
        c_view = self._view(c, sums, c.block)
        kind = format.statement.expr.type
        assert kind is not None
        bound = _largest(a) * _largest(w) * w.block * walk_size(walks[a.name], reduced)
        old = c if format.has_accumulate and instruction[ACCUMULATE] == 1 else added
        old_view = None
        if old is not None:
            as_sums = reordered(walk_of(instruction, old), (*batch, *vectors, *tiles))
            old_view = self._view(old, as_sums, old.block), old.element
        elements = (a.element, w.element, c.element)
        axes = len(batch), len(vectors), rows_axis
        return MatrixProduct(a_view, w_view, c_view, old_view, elements, axes, kind, bound).run

    def _weights_view(
        self, walk: AddressWalk, w: Operand, batch: tuple[int, ...], reduced: tuple[int, ...], tiles: tuple[int, ...]
    ) -> NDArray[Any]:
        """The tiles' elements as batch + reduced + (rows,) + tiles + (cols,)."""
        rows = AddressWalk(
            walk.base,
            (*(walk.trips[i] for i in (*batch, *reduced)), w.block, *(walk.trips[i] for i in tiles)),
            (*(walk.strides[i] for i in (*batch, *reduced)), 1, *(walk.strides[i] for i in tiles)),
        )
        return self._view(w, rows)

    def _may_feed_itself(self, walks: Mapping[str, AddressWalk], sources: tuple[Operand, ...], c: Operand) -> bool:
        to = walks[c.name]
        return any(
            source.memory == c.memory
            and walks[source.name].low <= to.high + c.block - 1
            and to.low <= walks[source.name].high + source.block - 1
            for source in sources
        )


# -- helpers -----------------------------------------------------------------------------------------------------------


def _strided(stored: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[Any]:
    """An array seen from a byte on, with strides in bytes; numpy refuses what would leave it."""
    return np.ndarray(shape, stored.dtype, stored, offset, strides)


def _largest(operand: Operand) -> int:
    assert operand.element.type is not None
    values = operand.element.type.values
    return max(-values.low, values.high)
