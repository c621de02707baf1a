"""Every instruction with every flag, memory and region on the hardware: the interpreter's bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.every_instruction import Case, case_of, every_case, program_of_case
from tests.generators import random_dram
from tests.test_simulator_equals_rtl import assert_same_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.interpreter import interpret

TRIALS = 3
"""Of each case, with other fields, strides and data."""


def test_the_cases_of_a_small_machine() -> None:
    cases = set(every_case(load_machine("tiny8")))
    assert Case("load_act", ("dram", "act"), "weights", ()) in cases
    assert Case("load_act", ("dram", "act"), "program", ()) not in cases
    assert {case.flags for case in cases if case.instruction == "mma"} == {(("accumulate", 0),), (("accumulate", 1),)}
    assert {case.region for case in cases if case.instruction == "store_act"} == {"workspace", "outputs"}


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["tiny8", pytest.param("base16", marks=pytest.mark.long)])
def test_every_instruction_on_the_hardware(isa: str) -> None:
    machine = load_machine(isa)
    jobs, cases = [], list(every_case(machine))
    for trial in range(TRIALS):
        for number, case in enumerate(cases):
            rng = np.random.default_rng((trial, number))
            program = program_of_case(machine, case, rng)
            jobs.append((program, random_dram(program, rng), place_regions(program.limits)))
    assert {case_of(program.instructions[-1]) for program, _, _ in jobs} == set(cases)

    runs = run_rtl_many(machine, jobs)

    changed = set()
    for case, job, (state, counters) in zip(cases * TRIALS, jobs, runs, strict=True):
        assert counters.fault is None and min(counters.retired) >= 0, case
        expected = interpret(*job)
        assert_same_bytes(expected, state, str(case))
        program, dram, bases = job
        before = interpret(replace(program, instructions=program.instructions[:-1]), dram, bases)
        if not np.array_equal(before.dram, expected.dram) or _differ(machine, before.memories, expected.memories):
            changed.add(case)
    assert changed == set(cases)  # what changes nothing says nothing
    formats = {case.instruction for case in cases}
    print(f"{machine.name}: {len(formats)} instructions, {len(cases)} cases, {len(jobs)} programs")
    assert formats == set(machine.formats)


def _differ(machine: Machine, one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return any(not np.array_equal(one[name], other[name]) for name in machine.memories)
