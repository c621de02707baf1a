"""Runs on the hardware: faults, what a run begins with and leaves, and what is refused.

Valid programs are compared in tests/test_simulator_equals_rtl.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.bad_accesses import bad_accesses
from tests.generators import (
    one_instruction_program,
    program_of,
    random_instruction,
    random_program,
)
from tests.test_simulator_equals_rtl import job as prepared
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.rtl.run import run_rtl, run_rtl_many
from tilewright.rtl.simulation.session import Job, RtlSession
from tilewright.rtl.simulation.tools import RtlError
from tilewright.simulator.cycles import simulate_cycles


@pytest.mark.slow
def test_stops_with_the_simulator_s_fault() -> None:
    """One field of a valid instruction is replaced by any value: an access leaves its memory or its region."""
    machine, rng = load_machine("tiny8"), np.random.default_rng(3)
    jobs, expected = bad_accesses(machine, 60, rng)
    came = [counters.fault for _, counters in run_rtl_many(machine, jobs)]
    assert came == expected
    assert {fault.code for fault in expected} == {FaultCode.REGION, FaultCode.ADDRESS}


def test_stops_at_a_wait_that_can_never_end() -> None:
    machine, rng = load_machine("tiny8"), np.random.default_rng(4)
    program = random_program(machine, rng, 10)
    instructions = list(program.instructions)
    instructions[6] = instructions[6].replace({"wait.store": 9})
    job = prepared(replace(program, instructions=tuple(instructions)), rng)
    _, counters = run_rtl(*job)
    assert counters.fault == simulate_cycles(job[0], job[2]).fault == Fault(FaultCode.WAIT, 6, 9)


def test_stops_at_an_unknown_opcode() -> None:
    machine, rng = load_machine("tiny8"), np.random.default_rng(4)
    program, dram, bases = prepared(random_program(machine, rng, 10), rng)
    unknown = max(f.opcode for f in machine.formats.values()) + 1
    dram[bases["program"] + sum(instruction.format.bytes for instruction in program.instructions[:7])] = unknown
    _, counters = run_rtl(program, dram, bases)
    assert counters.fault == Fault(FaultCode.OPCODE, 7, unknown)


def test_stops_at_memory_that_is_not_there() -> None:
    """The DRAM image ends before the region does: the bus answers with an error."""
    machine, rng = load_machine("tiny8"), np.random.default_rng(4)
    program, dram, bases = prepared(one_instruction_program(machine, a_load_of_inputs(machine, rng))[0], rng)
    _, counters = run_rtl(program, dram[: bases["inputs"]].copy(), bases)
    assert counters.fault == Fault(FaultCode.BUS, 0, 0)


def a_load_of_inputs(machine: Machine, rng: np.random.Generator) -> object:
    instruction = random_instruction(machine, machine.formats_of(machine.engines["load"])[0], rng)
    return instruction.replace(
        {"d.region": 3, "d.base": 0, **{f"d.{loop.name}": 8 for loop in instruction.format.loops}}
    )


def test_a_program_of_nothing_takes_no_cycle() -> None:
    machine = load_machine("tiny8")
    job = prepared(program_of(machine, ()), np.random.default_rng(1))
    _, counters = run_rtl(*job)
    assert (counters.cycles, counters.fault, len(counters.started)) == (0, None, 0)


def test_every_run_begins_with_zeros() -> None:
    machine, rng = load_machine("tiny8"), np.random.default_rng(9)
    first, empty = prepared(random_program(machine, rng, 20), rng), prepared(program_of(machine, ()), rng)
    (before, _), (after, _) = run_rtl_many(machine, [first, empty])
    assert any(memory.any() for memory in before.memories.values())
    assert not any(memory.any() for memory in after.memories.values())


def test_leaves_the_given_dram_alone() -> None:
    program, dram, bases = prepared(
        random_program(load_machine("tiny8"), np.random.default_rng(9), 20), np.random.default_rng(1)
    )
    copy = dram.copy()
    run_rtl(program, dram, bases)
    assert np.array_equal(dram, copy)


def test_refuses_the_program_of_another_machine() -> None:
    machine, other = load_machine("tiny8"), load_machine("tiny8", ["dram.latency_cycles=65"])
    job = Job(*prepared(program_of(other, ()), np.random.default_rng(1)))
    with pytest.raises(RtlError) as error:
        RtlSession(machine).run([job])
    assert str(error.value) == (
        f"the program is for machine {other.name!r} ({other.hash[:8]}), "
        f"the hardware here is 'tiny8' ({machine.hash[:8]}); simulate the one it is for"
    )


def test_says_that_a_run_does_not_end() -> None:
    machine, rng = load_machine("tiny8"), np.random.default_rng(1)
    job = Job(*prepared(random_program(machine, rng, 20), rng))
    with pytest.raises(RtlError) as error:
        RtlSession(machine, max_cycles=100).run([job])
    assert str(error.value) == "the program did not end within 100 cycles of hardware simulation"
