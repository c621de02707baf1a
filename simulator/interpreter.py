"""The oracle: runs a program one iteration and one lane at a time, written from the meaning of an instruction.

For every index of the loops, in order: read a block of words of each source at `base + Σ index·stride`, evaluate the
statement in each lane with Python's integers, write the destination at its own `base + Σ index·stride`. Nothing here is
fast, and nothing is shared with the fast simulator except the number rules of `isa.language.numeric`. What each word
means is written here once more on purpose, without the rows of `isa.language.operations`: the two check each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from types import MappingProxyType
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import WORD_BITS, FloatType, IntegerType, round_shift, wrap
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, Operand
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault, FaultCode, MachineFault
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import MachineState, initial_state
from tilewright.isa.templates.dma import chip_operand, dram_operand
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights
from tilewright.simulator.float_codes import code_steps, nearest_code
from tilewright.simulator.regions import Region, bursts_of, check_burst, check_dram_size, region, regions_of
from tilewright.simulator.scalar_access import (
    address_of,
    check_access,
    iterations_of,
    plain_type,
    read_factors,
    read_numbers,
    read_raw,
    runs_of,
    write_numbers,
)


def interpret(program: Program, dram: NDArray[np.uint8], bases: Mapping[str, int]) -> MachineState:
    """Run a program from reset. Raises MachineFault at the first instruction, in program order, that faults."""
    regions = regions_of(program, bases)
    check_dram_size(dram.size, regions)
    state = initial_state(program.machine, dram)
    dispatched = dict.fromkeys(program.machine.engines, 0)
    for index, instruction in enumerate(program.instructions):
        check_waits(instruction, dispatched, index)
        interpret_instruction(program.machine, instruction, state, regions, index)
        dispatched[instruction.engine.name] += 1
    return state


def check_waits(instruction: Instruction, dispatched: Mapping[str, int], index: int) -> None:
    """Raises WAIT when an instruction waits for more of an engine's instructions than come before it."""
    for engine, count in instruction.waits.items():
        if count > dispatched[engine]:
            raise MachineFault(Fault(FaultCode.WAIT, index, count))


def interpret_instruction(
    machine: Machine, instruction: Instruction, state: MachineState, regions: tuple[Region, ...], index: int = 0
) -> None:
    """Change `state` as one instruction does; `index` is what a fault names. Raises ADDRESS and REGION faults."""
    match instruction.engine.template:
        case Template.DMA:
            _move(machine, instruction, state, regions, index)
        case Template.SYSTOLIC:
            _multiply(machine, instruction, state, index)
        case Template.VECTOR if instruction.format.statement.dot is not None:
            _multiply_row_by_row(machine, instruction, state, index)
        case Template.VECTOR:
            _evaluate_lanes(machine, instruction, state, index)
        case unknown:
            assert_never(unknown)


# -- vector ------------------------------------------------------------------------------------------------------------


def _evaluate_lanes(machine: Machine, instruction: Instruction, state: MachineState, index: int) -> None:
    format = instruction.format
    immediates = {(name, "", 0): instruction[name] for name in format.immediates}
    reduction = format.statement.reduction
    partial = [0] * machine.lanes
    for loops in iterations_of(instruction):
        words = {}
        for operand in format.operands:
            check_access(machine, operand.memory, address_of(instruction, operand, loops), operand.block, index)
        for source in format.sources:
            address = address_of(instruction, source, loops)
            words[source.name] = read_raw(state, source, address)
        is_first = all(loops[name] == 0 for name in format.reduce_loops)
        is_last = all(loops[name] == instruction.trips[name] - 1 for name in format.reduce_loops)
        lanes = [
            Lane(
                {
                    **immediates,
                    **{
                        key: value
                        for s in format.streams
                        for word, raw in enumerate(words[s.name][lane :: machine.lanes])
                        for key, value in _fields(s, word, raw).items()
                    },
                },
                {
                    t.name: [wrap(r, plain_type(t.element)) for r in words[t.name][lane :: machine.lanes]]
                    for t in format.tables
                },
            )
            for lane in range(machine.lanes)
        ]
        if reduction is not None:
            values = evaluate_lanes(reduction.args[0], lanes, partial)
            if is_first:
                partial = values
            else:
                partial = [_combine(reduction.op, old, new) for old, new in zip(partial, values, strict=True)]
        if is_last:
            results = evaluate_lanes(format.statement.expr, lanes, partial)
            write_numbers(state, format.destination, address_of(instruction, format.destination, loops), results)


def _multiply_row_by_row(machine: Machine, instruction: Instruction, state: MachineState, index: int) -> None:
    """A row of the weight tile after the other: each lane adds its weight times the vector's element of that row."""
    format, lanes = instruction.format, range(machine.lanes)
    a, w, c = systolic_activations(format), systolic_weights(format), format.destination
    partial = [0] * machine.lanes
    for loops in iterations_of(instruction):
        at = {operand.name: address_of(instruction, operand, loops) for operand in format.operands}
        for row, operand in product(range(w.block), format.operands):
            check_access(machine, operand.memory, at[operand.name] + (row if operand is w else 0), 1, index)
        read = {source.name: read_numbers(state, source, at[source.name]) for source in format.sources}
        if all(loops[name] == 0 for name in format.reduce_loops):
            partial = [0] * machine.lanes
        for row, element in enumerate(read[a.name]):
            partial = [partial[lane] + element * read[w.name][row * machine.lanes + lane] for lane in lanes]
        if all(loops[name] == instruction.trips[name] - 1 for name in format.reduce_loops):
            values = [Lane({(name, "", 0): words[lane] for name, words in read.items()}) for lane in lanes]
            write_numbers(state, c, at[c.name], evaluate_lanes(format.statement.expr, values, partial))


def _fields(source: Operand, word: int, raw: int) -> dict[tuple[str, str, int], int]:
    """The integers of one lane of a word, by operand, field name and position of the word in its block."""
    if source.element.type is not None:
        return {(source.name, "", word): wrap(raw, source.element.type)}
    return {(source.name, f.name, word): wrap(raw >> f.low_bit, f.type) for f in source.element.fields}


def _combine(op: Op, so_far: int, value: int) -> int:
    match op:
        case Op.SUM:
            return so_far + value
        case Op.MAX_OVER:
            return max(so_far, value)
        case Op.MIN_OVER:
            return min(so_far, value)
    raise AssertionError(op)


@dataclass(frozen=True, slots=True)
class Lane:
    """What a statement names, in one lane.

    `values` has the integer of every (operand, field, word of its block) and (immediate, "", 0), `tables` the elements
    of every operand that is looked up in.
    """

    values: Mapping[tuple[str, str, int], int]
    tables: Mapping[str, Sequence[int]] = field(default_factory=dict)


def evaluate_lanes(expr: Expr, lanes: Sequence[Lane], reduced: Sequence[int]) -> list[int]:
    """The value of an expression in each lane; `reduced` are those of its reduction over the loops."""
    across: dict[Expr, int] = {}
    for node in walk(expr):
        if node.op in ACROSS_LANES:
            values = [evaluate(node.args[0], lane, old, across) for lane, old in zip(lanes, reduced, strict=True)]
            across[node] = sum(values) if node.op is Op.LANES_SUM else max(values)
    return [evaluate(expr, lane, old, across) for lane, old in zip(lanes, reduced, strict=True)]


def evaluate(expr: Expr, lane: Lane, reduced: int, across: Mapping[Expr, int] = MappingProxyType({})) -> int:
    """The value of an expression in one lane; `across` has those of its reductions across lanes."""
    if expr.op in (Op.SUM, Op.MAX_OVER, Op.MIN_OVER):
        return reduced
    if expr.op in ACROSS_LANES:
        return across[expr]
    args = [evaluate(arg, lane, reduced, across) for arg in expr.args]
    match expr.op:
        case Op.CONST:
            return expr.value
        case Op.SOURCE | Op.IMMEDIATE:
            return lane.values[expr.name, expr.field, expr.value]
        case Op.WORDS_SUM:
            return sum(args)
        case Op.ADD:
            return args[0] + args[1]
        case Op.SUB:
            return args[0] - args[1]
        case Op.MUL:
            return args[0] * args[1]
        case Op.SHIFT_LEFT:
            return args[0] << args[1]
        case Op.SHIFT_RIGHT:
            return args[0] >> args[1]
        case Op.LESS:
            return int(args[0] < args[1])
        case Op.LESS_EQUAL:
            return int(args[0] <= args[1])
        case Op.EQUAL:
            return int(args[0] == args[1])
        case Op.NOT_EQUAL:
            return int(args[0] != args[1])
        case Op.MIN:
            return min(args)
        case Op.MAX:
            return max(args)
        case Op.ABS:
            return abs(args[0])
        case Op.CLZ:
            return 0 if args[0] < 0 else WORD_BITS - args[0].bit_length()
        case Op.WHERE:
            return args[1] if args[0] != 0 else args[2]
        case Op.LUT:
            return lane.tables[expr.name][args[0] - expr.args[0].range.low]
        case Op.WRAP:
            assert expr.type is not None
            return int(wrap(args[0], expr.type))
        case Op.ROUND_SHIFT:
            return int(round_shift(args[0], args[1], expr.rounding))
        case Op.STEPS:
            return code_steps(args[0], _float_type(expr.type))
        case Op.NEAREST:
            return nearest_code(Fraction(args[0], 1 << args[1]), _float_type(expr.type))
    raise AssertionError(expr.op)


def _float_type(kind: IntegerType | None) -> FloatType:
    assert isinstance(kind, FloatType)
    return kind


# -- systolic ----------------------------------------------------------------------------------------------------------


def _multiply(machine: Machine, instruction: Instruction, state: MachineState, index: int) -> None:
    """c = wrap((c, unless this is the first reduce iteration without `accumulate`) + dot(a, w or its transpose))."""
    format = instruction.format
    a, w, c = systolic_activations(format), systolic_weights(format), format.destination
    adds_always = format.has_accumulate and instruction[ACCUMULATE] == 1
    for loops in iterations_of(instruction):
        for operand in format.operands:
            address = address_of(instruction, operand, loops)
            if operand is w:
                for row in range(w.block):
                    check_access(machine, w.memory, address + row, 1, index)
            else:
                check_access(machine, operand.memory, address, operand.block, index)
        vector = read_factors(state, a, address_of(instruction, a, loops))
        tile = read_factors(state, w, address_of(instruction, w, loops))
        old = read_numbers(state, c, address_of(instruction, c, loops))
        adds = adds_always or any(loops[name] != 0 for name in format.reduce_loops)
        array = format.engine.array
        columns = len(old)
        row_step, column_step = (1, columns) if is_transposing(format) else (columns, 1)
        sums = []
        for column in range(columns):
            total = old[column] if adds else 0
            for row in range(array.rows):
                total += vector[row] * tile[row * row_step + column * column_step]
            sums.append(evaluate(format.statement.expr, Lane({}), total))
        write_numbers(state, c, address_of(instruction, c, loops), sums)


# -- dma ---------------------------------------------------------------------------------------------------------------


def _move(
    machine: Machine, instruction: Instruction, state: MachineState, regions: tuple[Region, ...], index: int
) -> None:
    """Move words byte for byte; the bursts that begin in a word are checked with that word's iteration."""
    format = instruction.format
    outer, on_chip = dram_operand(format), chip_operand(format)
    memory = machine.memories[on_chip.memory]
    within = region(regions, instruction[f"{outer.name}.region"])
    for run in runs_of(instruction, outer, memory.word_bytes):
        start = within.base + address_of(instruction, outer, run[0])
        bursts = list(bursts_of(start, len(run) * memory.word_bytes, machine.dram.bus_bytes))
        for position, loops in enumerate(run):
            word = range(position * memory.word_bytes, (position + 1) * memory.word_bytes)
            address = address_of(instruction, on_chip, loops)
            for operand in format.operands:
                if operand is on_chip:
                    check_access(machine, memory.name, address, 1, index)
                    continue
                for distance, burst in bursts:
                    if distance in word:
                        check_burst(burst, within, index)
            in_dram = state.dram[start + word.start : start + word.stop]
            if outer is format.sources[0]:
                state.memories[memory.name][address] = in_dram
            else:
                in_dram[:] = state.memories[memory.name][address]
