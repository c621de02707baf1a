"""Machine files that are accepted, as hardware: an instruction each of some formats gives the simulator's bytes.

Each input is a build of hardware, so there are few of them.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.fuzz.programs_of_machines import programs_of_one_instruction
from tests.fuzz.targets.machine_files import MachineFile, changed_files
from tests.generators import random_dram
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.program.program import place_regions
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

MOST_ELEMENTS = 64
"""Of the array: larger ones take minutes to compile."""

MOST_PROGRAMS = 12


def attempt(file: MachineFile) -> Outcome:
    try:
        machine = load_machine_text(file.text, "changed.yaml")
    except IsaError:
        return Outcome.REFUSED
    stored = sum(memory.depth * memory.word_bytes for memory in machine.memories.values())
    if machine.array.rows * machine.array.cols > MOST_ELEMENTS or stored > 1 << 20:
        return Outcome.UNJUDGED
    rng = np.random.default_rng(file.seed)
    programs = programs_of_one_instruction(machine, rng, MOST_PROGRAMS)
    jobs = [(program, random_dram(program, rng), place_regions(program.limits)) for program in programs]
    if not jobs:
        return Outcome.UNJUDGED
    with accepted("machine in hardware"):
        results = run_rtl_many(machine, jobs)
    for job, (state, counters) in zip(jobs, results, strict=True):
        program, _, bases = job
        mnemonic = program.instructions[0].mnemonic
        simulated = simulate_values(*job)
        if counters.fault is not None or not np.array_equal(state.dram, simulated.dram):
            raise WrongAnswer(f"{mnemonic}: {counters.fault or 'other bytes in DRAM'}", "hardware: dram")
        for name, words in simulated.memories.items():
            if not np.array_equal(state.memories[name], words):
                raise WrongAnswer(f"{mnemonic}: other words in {name}", "hardware: memories")
        if simulate_cycles(program, bases).cycles != counters.cycles:
            raise WrongAnswer(f"{mnemonic}: other cycles", "hardware: cycles")
    return Outcome.RIGHT


TARGET = Target("machines in hardware", changed_files(("tiny8",)), attempt, share=0.01, seconds=300)
