"""Short random programs for any machine, however odd: the oracle of machine files."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tests.fuzz.executors import MOST_WORK, require_identities, work
from tests.fuzz.harness import Outcome, WrongAnswer, accepted
from tests.generators import LIMITS, program_of, random_instruction, random_state
from tilewright.isa.check.checker import check
from tilewright.isa.check.finding import FindingCode
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.interpreter import interpret_instruction
from tilewright.simulator.regions import regions_of
from tilewright.simulator.values import PreparedProgram

MAY_BE = (FindingCode.UNWRITTEN, FindingCode.LAYERS, FindingCode.TENSOR)
"""Findings of a program that runs all the same: memories are filled from outside."""


MOST_FORMATS = 4


def some_formats(machine: Machine, rng: Generator) -> Outcome:
    """RIGHT when simulator and interpreter agree about instructions of some formats; UNJUDGED if none can be made."""
    programs = programs_of_one_instruction(machine, rng, MOST_FORMATS)
    for program in programs:
        _require_agreement(program, rng)
        require_identities(program, "machine file")
    return Outcome.RIGHT if programs else Outcome.UNJUDGED


def programs_of_one_instruction(machine: Machine, rng: Generator, most: int) -> list[Program]:
    """A program each for up to so many of the machine's formats, those for which one can be made."""
    formats = list(machine.formats.values())
    tried = [_program(machine, formats[position], rng) for position in rng.permutation(len(formats))[:most]]
    return [program for program in tried if program is not None]


def _program(machine: Machine, format: InstructionFormat, rng: Generator) -> Program | None:
    """A program of one instruction in which the checker finds nothing that counts here; None if none turns up."""
    if any(o.block > machine.memories[o.memory].depth for o in format.operands if o.memory in machine.memories):
        return None
    for _ in range(3):
        program = program_of(machine, (random_instruction(machine, format, rng, max_iterations=12),))
        if work(program) <= MOST_WORK // 10 and all(finding.code in MAY_BE for finding in check(program)):
            return program
    return None


def _require_agreement(program: Program, rng: Generator) -> None:
    machine, bases = program.machine, place_regions(LIMITS)
    state = random_state(machine, rng)
    with accepted("machine file"):
        fast = PreparedProgram(program, bases).run(state.dram, state.memories)
        interpret_instruction(machine, program.instructions[0], state, regions_of(program, bases), 0)
    stored = {"dram": (fast.dram, state.dram)}
    stored |= {name: (fast.memories[name], state.memories[name]) for name in machine.memories}
    for name, (simulated, expected) in stored.items():
        if not np.array_equal(simulated, expected):
            mnemonic = program.instructions[0].mnemonic
            raise WrongAnswer(f"{mnemonic}: simulator and interpreter differ in {name}", "machine file: values")
