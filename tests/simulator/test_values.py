"""The fast simulator against the interpreter: every instruction of every machine, random fields, every byte."""

from __future__ import annotations

import numpy as np
import pytest

from isa.encoding import Instruction
from isa.loader import load_machine
from isa.machine import Machine
from isa.state import MachineState
from simulator.interpreter import interpret_instruction
from simulator.regions import regions_of
from simulator.values import PreparedProgram
from tests.generators import one_instruction_program, random_instruction, random_state

MACHINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("base16", ()),
    ("tiny8", ()),
    ("rect", ()),
    ("base16", ("rounding=up",)),
    ("tiny8", ("rounding=away",)),
    ("base16", ("lanes=8",)),
    ("base16", ("array.rows=4", "array.cols=12", "lanes=4", "dram.bus_bytes=4")),
)

SEEDS = 12


def machine_id(machine: tuple[str, tuple[str, ...]]) -> str:
    return " ".join((machine[0], *machine[1]))


@pytest.mark.parametrize("named", MACHINES, ids=machine_id)
def test_equals_the_interpreter_on_every_instruction(named: tuple[str, tuple[str, ...]]) -> None:
    machine = load_machine(*named)
    for of in machine.formats.values():
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            instruction = random_instruction(machine, of, rng)
            assert_same_bytes(machine, instruction, random_state(machine, rng), f"{of.mnemonic}, seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("named", MACHINES, ids=machine_id)
def test_equals_the_interpreter_on_many_instructions(named: tuple[str, tuple[str, ...]]) -> None:
    machine = load_machine(*named)
    for of in machine.formats.values():
        for seed in range(1000, 1150):
            rng = np.random.default_rng(seed)
            instruction = random_instruction(machine, of, rng, max_iterations=160)
            assert_same_bytes(machine, instruction, random_state(machine, rng), f"{of.mnemonic}, seed {seed}")


def assert_same_bytes(machine: Machine, instruction: Instruction, start: MachineState, case: str) -> None:
    program, bases = one_instruction_program(machine, instruction)
    expected = MachineState({name: stored.copy() for name, stored in start.memories.items()}, start.dram.copy())
    interpret_instruction(machine, instruction, expected, regions_of(program, bases))
    found = run_from(PreparedProgram(program, bases), start)
    case = f"{case}: {dict(zip((f.name for f in instruction.format.fields), instruction.values, strict=True))}"
    for name, stored in expected.memories.items():
        assert np.array_equal(found.memories[name], stored), f"{name} differs: {case}"
    assert np.array_equal(found.dram, expected.dram), f"dram differs: {case}"


def run_from(prepared: PreparedProgram, start: MachineState) -> MachineState:
    """Run a prepared program from a state that is not that after reset."""
    assert prepared.fault is None, str(prepared.fault)
    return prepared.run(start.dram, start.memories)
