"""Loop nests as nested Python loops, and random instructions, for the tests of the hardware's units."""

import itertools
import random
from collections.abc import Iterator, Sequence

from tilewright.isa.machine.encoding import Instruction, InstructionFormat, Operand, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM


def iterations(
    instruction: Instruction, loops: Sequence[str], trips: dict[str, int]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Index by loop, and address by operand, of every iteration in order."""
    for index in itertools.product(*(range(trips[name]) for name in loops)):
        at = dict(zip(loops, index, strict=True))
        yield (
            at,
            {
                operand.name: instruction.base(operand.name)
                + sum(at.get(name, 0) * stride for name, stride in instruction.strides(operand).items())
                for operand in instruction.format.operands
            },
        )


def all_iterations(instruction: Instruction) -> list[tuple[dict[str, int], dict[str, int]]]:
    return list(iterations(instruction, list(instruction.trips), instruction.trips))


def is_access_bad(machine: Machine, operand: Operand, address: int) -> bool:
    """Whether an access of the operand's block leaves its memory or crosses into another bank."""
    if operand.memory == DRAM:
        return False
    memory = machine.memories[operand.memory]
    words = range(address, address + operand.block)
    return not (
        all(0 <= word < memory.depth for word in words) and len({word // memory.bank_depth for word in words}) == 1
    )


def random_instruction(machine: Machine, of: InstructionFormat, seed: random.Random, spread: int = 40) -> Instruction:
    """Small trip counts, any base, strides up to `spread` either way, any immediates; its accesses may be bad."""
    values = {f"trip.{loop.name}": seed.choice([1, 1, 2, 3, 4]) for loop in of.loops}
    for operand in of.operands:
        depth = machine.memories[operand.memory].depth if operand.memory != DRAM else 1 << machine.dram.offset_bits
        values[f"{operand.name}.base"] = seed.randrange(depth)
        for name in operand.loops:
            values[f"{operand.name}.{name}"] = seed.randint(-spread, spread)
    for name, type_ in of.immediates.items():
        values[name] = seed.randint(type_.interval.low, type_.interval.high)
    if of.has_accumulate:
        values["accumulate"] = seed.randint(0, 1)
    fields = {field.name: field for field in of.fields}
    return make_instruction(of, {name: min(max(v, fields[name].low), fields[name].high) for name, v in values.items()})
