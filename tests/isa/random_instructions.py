"""Seeded random instructions: any values that their fields can hold, or small ones whose words often overlap."""

from __future__ import annotations

import random

from tests.engines import ENGINES
from tilewright.isa.machine.encoding import (
    FieldKind,
    Instruction,
    InstructionField,
    InstructionFormat,
    make_instruction,
)
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS


def random_instruction(rng: random.Random, machine: Machine) -> Instruction:
    """Any instruction of the machine; a third of its fields are at their default, a third at an end of their range."""

    def value(field: InstructionField) -> int:
        if field.kind is FieldKind.OPCODE:
            return field.default
        return rng.choice([field.default, rng.choice([field.low, field.high]), rng.randint(field.low, field.high)])

    of = rng.choice(list(machine.formats.values()))
    return make_instruction(of, {f.name: value(f) for f in of.fields if f.kind is not FieldKind.OPCODE})


def overlapping_program(rng: random.Random, machine: Machine, length: int) -> list[Instruction]:
    """Instructions on a few words of each memory; waits mostly name earlier instructions, often too few of them."""
    dispatched = dict.fromkeys(ENGINES, 0)
    caution = rng.choice([0.3, 0.9, 1.0])
    instructions = []
    for _ in range(length):
        of = rng.choice(list(machine.formats.values()))
        waits = {}
        for engine, count in dispatched.items():
            waits[f"wait.{engine}"] = count if rng.random() < caution else rng.randint(0, count)
            if rng.random() < 0.01:
                waits[f"wait.{engine}"] = count + 1
        instructions.append(make_instruction(of, {**small_values(rng, of, machine), **waits}))
        dispatched[of.engine.name] += 1
    return instructions


def small_values(rng: random.Random, of: InstructionFormat, machine: Machine) -> dict[str, int]:
    """Fields of an instruction with few iterations near the beginning, a bank boundary or the end of a memory."""
    values = {}
    for field in of.fields:
        operand = field.name.partition(".")[0]
        match field.kind:
            case FieldKind.TRIP:
                values[field.name] = min(rng.choice([1, 1, 1, 2, 3]), field.high)
            case FieldKind.REGION:
                regions = range(2, len(REGIONS)) if of.destination.name == operand else range(1, len(REGIONS))
                values[field.name] = rng.choice([*regions, *regions, rng.randint(field.low, field.high)])
            case FieldKind.BASE:
                memory = machine.memories.get(of.operand(operand).memory)
                near = [0, 0, 4] if memory is None else [0, 0, 0, 4, memory.bank_depth - 2, memory.depth - 3]
                values[field.name] = max(field.low, min(rng.choice(near) + rng.randint(0, 6), field.high))
            case FieldKind.STRIDE:
                scale = 1 if of.operand(operand).memory in machine.memories else rng.choice([1, 5, 16])
                values[field.name] = max(field.low, min(field.high, rng.randint(-1, 3) * scale))
            case FieldKind.FLAG:
                values[field.name] = rng.randint(0, 1)
    return values
