"""A program as the tables of integers that the cycle kernel steps through."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from isa.encoding import ACCUMULATE, Instruction, Operand
from isa.machine import ENGINES, Machine
from isa.memory import DRAM
from isa.program import Program
from isa.templates import systolic_activations, systolic_weights, tile_loops
from simulator.cycle_kernel import Code
from simulator.regions import Region, region, regions_of


def vec_sources(machine: Machine) -> int:
    """Read ports of the vector engine: the most sources that one of its instructions has."""
    return max((len(of.sources) for of in machine.formats_of("vec")), default=0)


def nest_depth(machine: Machine) -> int:
    return max(len(of.loops) for of in machine.formats.values())


def instruction_table(program: Program, bases: Mapping[str, int]) -> Code:
    """Every instruction's numbers, and which bank every word is in."""
    machine, count = program.machine, len(program.instructions)
    loops, operands = nest_depth(machine), max(3, vec_sources(machine) + 1)
    of_engine: list[list[int]] = [[] for _ in ENGINES]
    for index, instruction in enumerate(program.instructions):
        of_engine[ENGINES.index(instruction.engine)].append(index)
    longest = max(1, *(len(indices) for indices in of_engine))
    first_words, port_of_word = _banks(machine)

    def column(*shape: int) -> NDArray[np.int64]:
        return np.zeros((count, *shape), np.int64)

    code = Code(
        engine=column(),
        waits=column(len(ENGINES)),
        of_engine=np.array([[*indices, *[-1] * (longest - len(indices))] for indices in of_engine], np.int64),
        trips=np.ones((count, loops), np.int64),
        bases=column(operands),
        steps=column(operands, loops),
        iterations=column(),
        group=column(),
        first_inner=column(),
        is_reduce=column(loops),
        sources=column(),
        accumulate=column(),
        run_bytes=column(),
        runs=column(),
        word_bytes=column(),
        port_of_word=port_of_word,
        queue_depth=np.array([machine.engines[name].queue_depth for name in ENGINES], np.int64),
    )
    regions = regions_of(program, bases)
    for index, instruction in enumerate(program.instructions):
        _fill_nest(code, index, instruction)
        match machine.engines[instruction.engine].template:
            case "dma":
                _fill_move(code, index, instruction, machine, first_words, regions)
            case "systolic":
                _fill_product(code, index, instruction, first_words)
            case _:
                _fill_lanes(code, index, instruction, first_words)
    return code


def _banks(machine: Machine) -> tuple[dict[str, int], NDArray[np.int64]]:
    """Number of each memory's first word among all, and of each word its bank among all."""
    first_words, ports, words, banks = {}, [], 0, 0
    for memory in machine.memories.values():
        first_words[memory.name] = words
        ports.append(banks + np.arange(memory.depth, dtype=np.int64) // memory.bank_depth)
        words, banks = words + memory.depth, banks + memory.banks
    return first_words, np.concatenate(ports)


def _fill_nest(code: Code, index: int, instruction: Instruction) -> None:
    code.engine[index] = ENGINES.index(instruction.engine)
    code.waits[index] = tuple(instruction.waits.values())
    trips = tuple(instruction.trips.values())
    code.trips[index, -len(trips) :] = trips
    code.is_reduce[index, -len(trips) :] = [loop.is_reduce for loop in instruction.format.loops]


def _fill_operand(
    code: Code,
    index: int,
    column: int,
    instruction: Instruction,
    operand: Operand,
    first: int,
    loops: int | None = None,
) -> None:
    """An operand's first address and its steps over all loops, or over the outermost `loops` alone.

    When a loop moves on, all inside it return to their start: its step is its stride less what they have moved.
    """
    trips = tuple(instruction.trips.values())
    strides = tuple(instruction.strides(operand).values())
    code.bases[index, column] = first + instruction.base(operand.name)
    moved, missing = 0, code.trips.shape[1] - len(trips)
    for loop in reversed(range(len(trips) if loops is None else loops)):
        code.steps[index, column, missing + loop] = strides[loop] - moved
        moved += strides[loop] * (trips[loop] - 1)


def _fill_lanes(code: Code, index: int, instruction: Instruction, first_words: Mapping[str, int]) -> None:
    of = instruction.format
    for column, source in enumerate(of.sources):
        _fill_operand(code, index, column, instruction, source, first_words[source.memory])
    destination = code.bases.shape[1] - 1
    _fill_operand(code, index, destination, instruction, of.destination, first_words[of.destination.memory])
    code.sources[index] = len(of.sources)
    code.iterations[index] = _product(instruction.trips.values())
    code.group[index] = _product(instruction.trips[name] for name in of.reduce_loops)


def _fill_product(code: Code, index: int, instruction: Instruction, first_words: Mapping[str, int]) -> None:
    of = instruction.format
    outer, trips = tile_loops(of), tuple(instruction.trips.values())
    a, w, c = systolic_activations(of), systolic_weights(of), of.destination
    _fill_operand(code, index, 0, instruction, a, first_words[a.memory])
    _fill_operand(code, index, 1, instruction, w, first_words[w.memory], outer)
    _fill_operand(code, index, 2, instruction, c, first_words[c.memory])
    code.iterations[index] = _product(trips[outer:])
    code.group[index] = _product(trips[:outer])
    code.first_inner[index] = code.trips.shape[1] - len(trips) + outer
    code.accumulate[index] = of.has_accumulate and instruction[ACCUMULATE]


def _fill_move(
    code: Code,
    index: int,
    instruction: Instruction,
    machine: Machine,
    first_words: Mapping[str, int],
    regions: tuple[Region, ...],
) -> None:
    of = instruction.format
    source, destination = of.sources[0], of.destination
    outer, on_chip = (source, destination) if source.memory == DRAM else (destination, source)
    word_bytes = machine.memories[on_chip.memory].word_bytes
    trips = tuple(instruction.trips.values())
    is_contiguous = tuple(instruction.strides(outer).values())[-1] == word_bytes
    walked = len(trips) - 1 if is_contiguous else len(trips)
    within = region(regions, instruction[f"{outer.name}.region"])
    _fill_operand(code, index, 0, instruction, on_chip, first_words[on_chip.memory])
    _fill_operand(code, index, 1, instruction, outer, within.base, walked)
    code.iterations[index] = _product(trips)
    code.run_bytes[index] = word_bytes * (trips[-1] if is_contiguous else 1)
    code.runs[index] = _product(trips[:walked])
    code.first_inner[index] = code.trips.shape[1] - len(trips) + walked
    code.word_bytes[index] = word_bytes


def _product(values: object) -> int:
    result = 1
    for value in values:  # type: ignore[attr-defined]
        result *= value
    return result
