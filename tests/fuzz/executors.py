"""The oracle of programs: what the checker accepts runs, and all simulators and texts agree about it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.random import Generator

from tests.fuzz.harness import Outcome, WrongAnswer, accepted
from tests.fuzz.orders import require_one_meaning
from tests.generators import random_dram
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.check.checker import check
from tilewright.isa.machine.engine import Template
from tilewright.isa.program.faults import Fault, MachineFault
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import MachineState
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.interpreter import interpret
from tilewright.simulator.values import simulate_values

MOST_WORK = 30_000
"""Elements that the interpreter is given to compute, five times each: about a second's."""

MOST_DRAM_BYTES = 1 << 24


def work(program: Program) -> int:
    """Elements that a program's statements compute."""
    machine = program.machine
    total = 0
    for instruction in program.instructions:
        is_array = instruction.engine.template is Template.SYSTOLIC
        total += prod(instruction.trips.values()) * machine.lanes * (machine.array.rows if is_array else 1)
    return total


def judge(program: Program, rng: Generator, kind: str) -> Outcome:
    """REFUSED by the checker or RIGHT; UNJUDGED for a program too large to interpret.

    Simulator and interpreter agree in every byte or in the fault that stops them, also about what the checker refuses;
    what it accepts has no fault, one meaning in every order of the engines, and cycles.
    """
    findings = check(program)
    if work(program) > MOST_WORK or sum(program.limits.values()) > MOST_DRAM_BYTES:
        return Outcome.REFUSED if findings else Outcome.UNJUDGED
    dram, bases = random_dram(program, rng), place_regions(program.limits)
    simulated = _ending(lambda: simulate_values(program, dram, bases))
    expected = _ending(lambda: interpret(program, dram, bases))
    _require_same(simulated, expected, f"{kind} on {program.machine.name}")
    if findings:
        return Outcome.REFUSED
    if isinstance(expected, Fault):
        raise WrongAnswer(f"the checker accepts what ends in a {expected}", f"{kind}: fault")
    require_one_meaning(program, dram, rng, kind)
    with accepted(kind):
        simulate_cycles(program, bases)
    return Outcome.RIGHT


def _ending(run: Callable[[], MachineState]) -> MachineState | Fault:
    try:
        return run()
    except MachineFault as error:
        return error.fault


def _require_same(simulated: MachineState | Fault, expected: MachineState | Fault, kind: str) -> None:
    if isinstance(simulated, Fault) or isinstance(expected, Fault):
        if simulated != expected:
            came = simulated if isinstance(simulated, Fault) else "no fault"
            told = expected if isinstance(expected, Fault) else "no fault"
            raise WrongAnswer(f"the simulator ends with {came}, the interpreter with {told}", f"{kind}: faults")
        return
    if not np.array_equal(simulated.dram, expected.dram):
        raise WrongAnswer("simulator and interpreter differ in dram", f"{kind}: values")
    for name, words in expected.memories.items():
        if not np.array_equal(simulated.memories[name], words):
            raise WrongAnswer(f"simulator and interpreter differ in {name}", f"{kind}: values")


def require_identities(program: Program, kind: str) -> None:
    """Text and file of a program come back as they were."""
    with accepted(kind):
        if assemble(disassemble(program), program.machine) != program:
            raise WrongAnswer("its disassembly assembles to another program", f"{kind}: text")
        if from_bytes(to_bytes(program), "again", program.machine) != program:
            raise WrongAnswer("its file loads as another program", f"{kind}: file")
