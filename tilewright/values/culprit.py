"""The instruction that made an element: its fields, the words that it read for it, and who had written those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.tile.interpreter import decode
from tilewright.isa.assembly.disassembler import format_instruction
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, Operand
from tilewright.isa.machine.memory import BYTE_BITS, DRAM, REGIONS
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import MachineState
from tilewright.simulator.nest import walk_of
from tilewright.values.places import NOWHERE
from tilewright.values.watch import Watch


@dataclass(frozen=True, slots=True)
class WordRead:
    """A word that an instruction read: its elements, by field for elements with fields; `maker`: who wrote it."""

    operand: str
    memory: str
    address: int
    elements: Mapping[str, tuple[int, ...]]
    maker: int | None


@dataclass(frozen=True, slots=True)
class Culprit:
    """`copied_by`: the moves that took the word from there to where the difference was seen, last first."""

    instruction: int
    text: str
    statement: str
    fields: Mapping[str, int]
    read: tuple[WordRead, ...]
    copied_by: tuple[int, ...]


def culprit(
    watch: Watch, image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]], instruction: int, address: int
) -> Culprit:
    """Who computed the word that an instruction wrote at an address: itself, or the maker of what it copies."""
    copies: list[int] = []
    while True:
        state, owners = watch.before(image, right, instruction)
        words = _read(watch, instruction, address, state, owners)
        made = watch.compiled.program.instructions[instruction]
        source = words[0] if len(words) == 1 else None
        if made.format.statement.expr.op is not Op.SOURCE or source is None or source.maker is None:
            break
        copies.append(instruction)
        instruction, address = source.maker, source.address
    fields = {field.name: made[field.name] for field in made.format.fields}
    statement = made.format.statement.text
    return Culprit(instruction, format_instruction(made), statement, fields, tuple(words), tuple(copies))


def _read(
    watch: Watch, index: int, address: int, state: MachineState, owners: Mapping[str, NDArray[np.int64]]
) -> list[WordRead]:
    """The words of all operands in the iterations that write a word, each once, in the order in which they are read."""
    program = watch.compiled.program
    instruction = program.instructions[index]
    written = instruction.format.destination
    starts = _addresses(watch, instruction, written)
    block = 1 if written.memory == DRAM else written.block
    iterations = np.flatnonzero((starts <= address) & (address < starts + block))
    operands = list(instruction.format.sources)
    if instruction.format.has_accumulate and instruction[ACCUMULATE]:
        operands.append(written)
    return [
        _word(watch, operand, int(at), state, owners)
        for operand in operands
        for at in dict.fromkeys(_words_of(operand, _addresses(watch, instruction, operand)[iterations]))
    ]


def _addresses(watch: Watch, instruction: Instruction, operand: Operand) -> NDArray[np.int64]:
    """The first word (or byte of DRAM) of an operand in each iteration, flat."""
    base = 0
    if operand.memory == DRAM:
        bases = place_regions(watch.compiled.program.limits)
        base = bases[REGIONS[instruction[f"{operand.name}.region"]]]
    trips = tuple(instruction.trips.values())
    return np.broadcast_to(walk_of(instruction, operand, base).addresses(), trips).reshape(-1)


def _words_of(operand: Operand, starts: NDArray[np.int64]) -> list[int]:
    block = 1 if operand.memory == DRAM else operand.block
    return [int(word) for word in (starts[:, None] + np.arange(block)).reshape(-1)]


def _word(
    watch: Watch, operand: Operand, address: int, state: MachineState, owners: Mapping[str, NDArray[np.int64]]
) -> WordRead:
    machine = watch.compiled.program.machine
    if operand.memory == DRAM:
        size = machine.lanes * operand.element.bits // BYTE_BITS
        content, maker = state.dram[address : address + size], NOWHERE
    else:
        content, maker = state.memories[operand.memory][address], int(owners[operand.memory][address])
    fields = decode(content, operand.element)
    elements = {name: tuple(int(value) for value in values) for name, values in fields.items()}
    return WordRead(operand.name, operand.memory, address, elements, None if maker == NOWHERE else maker)
