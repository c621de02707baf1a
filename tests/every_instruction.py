"""A program for every instruction of a machine with every value of its flags and every region that it may reach.

The cases follow from the machine's formats; their fields, strides and data are drawn from a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.generators import (
    PROGRAM_LIMITS,
    initial_loads,
    program_of,
    random_instruction,
    random_windows,
    with_waits,
)
from tilewright.isa.check.checker import check
from tilewright.isa.machine.encoding import FieldKind, Instruction, InstructionFormat, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import Program

LIMITS = {"program": 0, **PROGRAM_LIMITS}

MOST_DRAWS = 1000

READ = tuple(region for region in REGIONS if region != "program")

WRITTEN = ("workspace", "outputs")
"""Regions that a program may write."""


@dataclass(frozen=True, slots=True)
class Case:
    """An instruction by its name, the memory of each operand, the region of the one in DRAM, and its flags."""

    instruction: str
    memories: tuple[str, ...]
    region: str | None
    flags: tuple[tuple[str, int], ...]


def case_of(instruction: Instruction) -> Case:
    """The case that an instruction is one of."""
    of = instruction.format
    regions = [REGIONS[instruction[field.name]] for field in of.fields if field.kind is FieldKind.REGION]
    flags = tuple((field.name, instruction[field.name]) for field in of.fields if field.kind is FieldKind.FLAG)
    return Case(of.mnemonic, tuple(operand.memory for operand in of.operands), regions[0] if regions else None, flags)


def every_case(machine: Machine) -> Iterator[Case]:
    """All cases of a machine. Programs may write no weights, and nobody moves the program's own text."""
    for of in machine.formats.values():
        memories = tuple(operand.memory for operand in of.operands)
        names = [field.name for field in of.fields if field.kind is FieldKind.FLAG]
        for region in _regions(of):
            for values in product((0, 1), repeat=len(names)):
                yield Case(of.mnemonic, memories, region, tuple(zip(names, values, strict=True)))


def _regions(of: InstructionFormat) -> list[str | None]:
    if all(operand.memory != DRAM for operand in of.operands):
        return [None]
    return list(WRITTEN if of.destination.memory == DRAM else READ)


def program_of_case(machine: Machine, case: Case, rng: np.random.Generator) -> Program:
    """A program that the checker accepts: what it reads is loaded or stored first, then one instruction of the case."""
    of = machine.formats[case.instruction]
    for _ in range(MOST_DRAWS):
        windows = random_windows(machine, rng)
        before = initial_loads(machine, windows, rng)
        if case.region in WRITTEN and of.destination.memory != DRAM:
            filling = _filling(machine, case.region, windows)
            before.append(with_waits(machine, before, filling))
        drawn = random_instruction(machine, of, rng, LIMITS, windows=windows).replace(dict(case.flags))
        if case_of(drawn) == case:
            program = program_of(machine, (*before, with_waits(machine, before, drawn)), LIMITS)
            if not check(program):
                return program
    raise AssertionError(f"no program of {case} in {MOST_DRAWS} draws")


def _filling(machine: Machine, region: str, windows: Mapping[str, range]) -> Instruction:
    """A store to all whole words of a region: nobody may read there what was never written."""
    of = next(of for of in machine.formats.values() if of.destination.memory == DRAM)
    source, destination, loop = of.sources[0], of.destination, of.loops[-1].name
    word, window = machine.memories[source.memory].word_bytes, windows[source.memory]
    values = {
        f"trip.{loop}": min(LIMITS[region] // word, len(window)),
        f"{source.name}.base": window.start,
        f"{source.name}.{loop}": 1,
        f"{destination.name}.region": REGIONS.index(region),
        f"{destination.name}.{loop}": word,
    }
    return make_instruction(of, values)
