"""How the oracle goes through an instruction's loops, and reads and writes words, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from tilewright.isa.language.numeric import FloatType, IntegerType, wrap
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.program.faults import Fault, FaultCode, MachineFault
from tilewright.isa.program.state import MachineState
from tilewright.simulator.float_codes import code_steps


def runs_of(instruction: Instruction, outer: Operand, word_bytes: int) -> Iterator[list[dict[str, int]]]:
    """The iterations whose words are contiguous in DRAM: those of the innermost loop, if it moves word by word."""
    innermost = instruction.format.loops[-1].name
    is_contiguous = instruction.strides(outer)[innermost] == word_bytes
    run: list[dict[str, int]] = []
    for loops in iterations_of(instruction):
        if run and not (is_contiguous and loops[innermost] > 0):
            yield run
            run = []
        run.append(loops)
    yield run


def iterations_of(instruction: Instruction) -> Iterator[dict[str, int]]:
    """The index of every loop, by name, for each iteration in order."""
    trips = instruction.trips
    for indices in product(*(range(trip) for trip in trips.values())):
        yield dict(zip(trips, indices, strict=True))


def address_of(instruction: Instruction, operand: Operand, loops: Mapping[str, int]) -> int:
    strides = instruction.strides(operand)
    return instruction.base(operand.name) + sum(loops[name] * strides[name] for name in loops)


def check_access(machine: Machine, name: str, address: int, block: int, index: int) -> None:
    """Raises ADDRESS unless the block's words are all in one bank of the memory."""
    memory = machine.memories[name]
    is_inside = address >= 0 and address + block <= memory.depth
    if not is_inside or address // memory.stretch_words != (address + block - 1) // memory.stretch_words:
        raise MachineFault(Fault(FaultCode.ADDRESS, index, address))


def read_raw(state: MachineState, operand: Operand, address: int) -> list[int]:
    """The elements of a block of words as unsigned integers of all their stored bits."""
    size = operand.element.bits
    stored = state.memories[operand.memory][address : address + operand.block].tobytes()
    whole = int.from_bytes(stored, "little")
    return [(whole >> low) % (1 << size) for low in range(0, 8 * len(stored), size)]


def read_numbers(state: MachineState, operand: Operand, address: int) -> list[int]:
    kind = plain_type(operand.element)
    return [wrap(raw, kind) for raw in read_raw(state, operand, address)]


def read_factors(state: MachineState, operand: Operand, address: int) -> list[int]:
    """What the elements of a block of words count as in products."""
    read, kind = read_numbers(state, operand, address), operand.element.type
    return [code_steps(code, kind) for code in read] if isinstance(kind, FloatType) else read


def write_numbers(state: MachineState, operand: Operand, address: int, values: list[int]) -> None:
    """Store each value modulo 2 to the stored bits, so that it is sign-extended into its padding."""
    size, whole = operand.element.bits, 0
    for position, value in enumerate(values):
        whole |= (value % (1 << size)) << (position * size)
    stored = whole.to_bytes(len(values) * size // 8, "little")
    state.memories[operand.memory][address : address + operand.block] = np.frombuffer(stored, np.uint8).reshape(
        operand.block, -1
    )


def plain_type(element: Element) -> IntegerType:
    assert element.type is not None
    return element.type
