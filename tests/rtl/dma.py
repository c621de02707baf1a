"""What the tests of load and store share: instructions whose every byte is known, and DRAM as plain bytes."""

import random
from collections.abc import Sequence
from typing import Any

from tests.rtl.nests import all_iterations, random_instruction
from tilewright.isa.machine.encoding import Instruction, encode
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.templates.dma import chip_operand, dram_operand

REGION_BYTES = 4096
BASES = {region: REGION_BYTES * 3 * (number + 1) for number, region in enumerate(REGIONS)}
DRAM_BYTES = REGION_BYTES * 3 * (len(REGIONS) + 1)


def valid_transfers(machine: Machine, engine: str, seed: random.Random, count: int) -> list[Instruction]:
    """Random transfers whose every access is inside its region and memory; half of them have long contiguous runs."""
    made: list[Instruction] = []
    while len(made) < count:
        of = seed.choice(machine.formats_of(machine.engines[engine]))
        dram, chip, innermost = dram_operand(of), chip_operand(of), of.loops[-1].name
        instruction = random_instruction(machine, of, seed, spread=90)
        base, region = seed.randrange(REGION_BYTES), seed.randrange(len(REGIONS))
        changes = {f"{dram.name}.base": base, f"{dram.name}.region": region}
        if seed.random() < 0.5:
            word = machine.memories[chip.memory].word_bytes
            changes |= {f"{dram.name}.{innermost}": word, f"{chip.name}.{innermost}": 1}
            changes |= {f"trip.{innermost}": seed.randint(1, 40)}
        instruction = instruction.replace(changes)
        if is_inside(machine, instruction):
            made.append(instruction)
    return made


def is_inside(machine: Machine, instruction: Instruction) -> bool:
    of = instruction.format
    memory = machine.memories[chip_operand(of).memory]
    return all(
        0 <= at[chip_operand(of).name] < memory.depth
        and 0 <= at[dram_operand(of).name] <= REGION_BYTES - memory.word_bytes
        for _, at in all_iterations(instruction)
    )


def moves(machine: Machine, instruction: Instruction) -> list[tuple[int, int]]:
    """(DRAM address, word on chip) of every iteration, in order."""
    of = instruction.format
    dram, chip = dram_operand(of).name, chip_operand(of).name
    base = BASES[REGIONS[instruction[f"{dram}.region"]]]
    return [(base + at[dram], at[chip]) for _, at in all_iterations(instruction)]


def queued(machine: Machine, program: Sequence[Instruction]) -> list[dict[str, int]]:
    """Payloads of an instruction stream."""
    words = [encode(instruction) for instruction in program]
    return [{"bits": int.from_bytes(word, "little"), "index": index} for index, word in enumerate(words)]


def set_regions(ctx: Any, regions: Any) -> None:
    for region, base in BASES.items():
        ctx.set(regions[region].base, base)
        ctx.set(regions[region].limit, REGION_BYTES)
