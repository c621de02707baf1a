"""Random programs on random machines: every executor agrees, and the checker agrees with brute force.

Strides, overlaps, waits and banks are arbitrary; some programs are made invalid on purpose.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.generators import PROGRAM_LIMITS, program_of, random_dram, random_program
from tests.isa import checker_oracle
from tests.isa.random_instructions import overlapping_program
from tests.random_machines import random_machine
from tests.rings import long_beyond
from tests.test_random_machines import small_machines
from tests.test_simulator_equals_rtl import assert_equal, random_jobs
from tilewright.isa.check.checker import check
from tilewright.isa.machine.encoding import FieldKind, Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.interpreter import interpret
from tilewright.simulator.values import simulate_values

LIMITS = {"program": 0, **PROGRAM_LIMITS}


def check_executors(machine: Machine, seed: int, count: int) -> None:
    """The fast simulator gives the interpreter's bytes for a program that the checker accepts."""
    rng = np.random.default_rng(seed)
    program = random_program(machine, rng, count, max_iterations=40)
    assert check(program) == ()
    dram, bases = random_dram(program, rng), place_regions(program.limits)
    fast, oracle = simulate_values(program, dram, bases), interpret(program, dram, bases)
    assert np.array_equal(fast.dram, oracle.dram), f"seed {seed} on {machine.name}"
    for name, stored in oracle.memories.items():
        assert np.array_equal(fast.memories[name], stored), f"seed {seed} on {machine.name}: {name}"


def found_both_ways(program: Program, case: str) -> set[tuple[str, int]]:
    """What checker and brute force find, which is the same."""
    expected = checker_oracle.findings(program)
    assert {(finding.code.value, finding.instruction) for finding in check(program)} == expected, case
    return expected


def check_checker(machine: Machine, seed: int) -> set[str]:
    """A random program with small accesses that overlap; returns the codes of its faults."""
    rng = random.Random(seed)
    instructions = overlapping_program(rng, machine, rng.randint(1, 7))
    program = Program(machine, tuple(instructions), bytes(200), 150, (), (), input_bytes=300, output_bytes=100)
    return {code for code, _ in found_both_ways(program, f"seed {seed} on {machine.name}")} or {"valid"}


def damaged(instruction: Instruction, machine: Machine, rng: random.Random) -> Instruction | None:
    """The instruction without one of its waits, or with its last access one past the end of its memory."""
    waits = [engine for engine, count in instruction.waits.items() if count]
    if waits and rng.random() < 0.6:
        return instruction.replace({f"wait.{rng.choice(waits)}": 0})
    operand = rng.choice(instruction.format.operands)
    end = LIMITS["outputs"] if operand.memory == DRAM else machine.memories[operand.memory].depth
    trips = instruction.trips
    reach = sum(max(0, stride * (trips[loop] - 1)) for loop, stride in instruction.strides(operand).items())
    size = operand.block
    if operand.memory == DRAM:
        on_chip = next(other for other in instruction.format.operands if other is not operand)
        size = machine.memories[on_chip.memory].word_bytes
        instruction = instruction.replace({f"{operand.name}.region": 4})
    base = end - size - reach + 1
    field = next(f for f in instruction.format.fields if f.kind is FieldKind.BASE and f.name == f"{operand.name}.base")
    return instruction.replace({field.name: base}) if field.low <= base <= field.high else None


def check_damage(machine: Machine, seed: int) -> set[str]:
    """A valid program with one instruction damaged: checker and brute force find the same, if anything."""
    rng = random.Random(seed)
    valid = random_program(machine, np.random.default_rng(seed), 7, max_iterations=6)
    assert found_both_ways(valid, f"seed {seed} on {machine.name}") == set()
    at = rng.randrange(len(valid.instructions))
    changed = damaged(valid.instructions[at], machine, rng)
    if changed is None:
        return set()
    instructions = (*valid.instructions[:at], changed, *valid.instructions[at + 1 :])
    program = program_of(machine, instructions, LIMITS)
    return {code for code, _ in found_both_ways(program, f"seed {seed} on {machine.name}, instruction {at}")}


@pytest.mark.parametrize("seed", range(3))
def test_executors_agree(seed: int) -> None:
    check_executors(random_machine(seed), seed, 8)


def test_checker_agrees_with_brute_force() -> None:
    for seed in range(40):
        check_checker(random_machine(seed % 4), seed)


def test_checker_finds_damage() -> None:
    found = set().union(*(check_damage(random_machine(seed % 3), seed) for seed in range(15)))
    assert found & {"race", "unwritten"} and found & {"address", "region"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(20, range(3, 63)))
def test_executors_agree_on_many(seed: int) -> None:
    machine = random_machine(seed)
    for program in range(3):
        check_executors(machine, 100 * seed + program, 14)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(10, range(100, 130)))
def test_checker_agrees_with_brute_force_on_many(seed: int) -> None:
    machine = random_machine(seed)
    seen: set[str] = set()
    for program in range(60):
        seen |= check_checker(machine, 1000 * seed + program)
    for program in range(4):
        seen |= check_damage(machine, 1000 * seed + program)
    assert seen & {"race", "unwritten"}


@pytest.mark.slow
@pytest.mark.parametrize("position", long_beyond(2, range(4)))
def test_hardware_agrees(position: int) -> None:
    machine = small_machines(4)[position]
    seeds = range(3000, 3020)
    assert_equal(machine, random_jobs(machine, seeds, 16), seeds)
