"""What running a program takes, from its numbers alone: nothing is allocated and no iteration is gone through.

Memory is what a run takes beyond the file's own content, a little too much rather than too little: the regions that the
file only promises, the on-chip memories, the host's arrays, and what the simulator needs for one instruction, which it
computes at once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod

from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.budgets import Budgets, require
from tilewright.isa.program.program import Program, Tensor
from tilewright.isa.templates.dma import moved_word_bytes
from tilewright.isa.templates.table import facet_of

REGION_COPIES = 3
"""DRAM images at the same time: before a run, in it and after it."""

MEMORY_COPIES = 2
"""Contents of the on-chip memories at the same time: in a run and after it."""

BANK_BYTES = 24
"""What the cycle model keeps of a word on chip: the number of its bank, as it is made."""

ELEMENT_BYTES = 32
"""What an element of the host's largest array takes while it is quantised: numbers of 64 bits, a few at a time."""

ARRAY_BYTES = 4
"""What an element of any of the host's arrays takes."""

ADDRESS_BYTES = 64
"""What an address takes where they are looked at one by one."""

LANE_BYTES = 32
"""What an element takes as the simulator computes it: numbers of 64 bits, a few at a time."""

WRITER_BYTES = 16
"""What the simulator keeps of a place for all runs where several iterations write the same one."""


def require_within(programs: Sequence[Program], budgets: Budgets) -> None:
    """Raise OverBudget when programs that are kept together ask for more than a budget allows."""
    iterations = sum(iterations_of(i) for program in programs for i in program.instructions)
    require(budgets, "iterations", iterations, "the instructions have %s")
    moved = sum(moved_bytes(i, program.machine) for program in programs for i in program.instructions)
    require(budgets, "moved", moved, "the instructions move %s between DRAM and the machine")
    memory = [part for program in programs for part in _memory_of(program)]
    if memory:
        largest, _ = max(memory, key=lambda part: part[1])
        total = sum(size for _, size in memory)
        require(budgets, "memory", total, f"a run takes %s of memory, the largest part of it for {largest}")


def iterations_of(instruction: Instruction) -> int:
    """How many iterations an instruction has."""
    return prod(instruction.trips.values())


def moved_bytes(instruction: Instruction, machine: Machine) -> int:
    """Bytes that an instruction moves between DRAM and a memory on the chip; 0 if it does not."""
    format = instruction.format
    return 0 if format.in_dram is None else iterations_of(instruction) * moved_word_bytes(format, machine)


# -- memory ------------------------------------------------------------------------------------------------------------


def _memory_of(program: Program) -> list[tuple[str, int]]:
    """(what, bytes) of everything that a run takes beyond the file's content."""
    promised = {
        "workspace": program.workspace_bytes, "inputs": program.input_bytes, "outputs": program.output_bytes
    }  # fmt: skip
    memories = program.machine.memories.values()
    tensors = (*program.inputs, *program.outputs)
    return [
        *((f"the region {region}", REGION_COPIES * size) for region, size in promised.items()),
        *((f"the memory {m.name}", m.depth * (MEMORY_COPIES * m.word_bytes + BANK_BYTES)) for m in memories),
        *((f"the array of {tensor.name!r}", ARRAY_BYTES * _elements(tensor)) for tensor in tensors),
        ("converting an array", ELEMENT_BYTES * max(map(_elements, tensors), default=0)),
        *_instruction_memory(program),
    ]


def _elements(tensor: Tensor) -> int:
    """Elements of a tensor on the host or in DRAM, whichever are more."""
    return max(prod(tensor.shape), tensor.bytes)


def _instruction_memory(program: Program) -> list[tuple[str, int]]:
    machine, kept = program.machine, 0
    largest, mnemonic = 0, ""
    for instruction in program.instructions:
        iterations = iterations_of(instruction)
        places = 0 if _writes_apart(instruction, machine) else iterations * _places(instruction, machine)
        size = ADDRESS_BYTES * max(iterations, places) + LANE_BYTES * _elements_of(instruction, machine)
        if size > largest:
            largest, mnemonic = size, instruction.mnemonic
        kept += WRITER_BYTES * (places + iterations * len(instruction.format.tables))
    return [(f"an instruction {mnemonic}", largest), ("places that are written more than once", kept)]


def _places(instruction: Instruction, machine: Machine) -> int:
    """How many places an iteration writes: a word on chip, or each byte of one in DRAM."""
    format = instruction.format
    return machine.memories[format.sources[0].memory].word_bytes if format.destination.memory == DRAM else 1


def _elements_of(instruction: Instruction, machine: Machine) -> int:
    """Elements of all operands, each as often as its loops move it, and of what the statement makes of them."""
    moving: set[str] = set()
    elements = 0
    for operand in instruction.format.operands:
        strides = instruction.strides(operand)
        moved = {loop for loop, stride in strides.items() if stride}
        moving |= moved
        if operand.memory != DRAM:
            elements += _visits(instruction, moved) * operand.block * machine.memories[operand.memory].width
    computed = facet_of(instruction.engine.template).elements_computed(machine)
    return elements + _visits(instruction, moving) * computed


def _visits(instruction: Instruction, loops: Container[str]) -> int:
    return prod(trip for loop, trip in instruction.trips.items() if loop in loops)


def _writes_apart(instruction: Instruction, machine: Machine) -> bool:
    """Whether plainly no place is written twice; a word counts once for all iterations of the reduce loops."""
    format = instruction.format
    destination = format.destination
    taken = _places(instruction, machine) if destination.memory == DRAM else destination.block
    strides, trips = instruction.strides(destination), instruction.trips
    return are_apart([(strides[loop], trips[loop]) for loop in trips if loop not in format.reduce_loops], taken)


def are_apart(steps: Iterable[tuple[int, int]], taken: int) -> bool:
    """Whether no two iterations touch the same of the `taken` places from their addresses on, where that is plain.

    `steps` are the stride and the trip count of each loop. False may also mean that it takes a look at each iteration.
    """
    for stride, trip in sorted((abs(stride), trip) for stride, trip in steps if trip > 1):
        if stride < taken:
            return False
        taken += stride * (trip - 1)
    return True
