"""Programs whose one instruction leaves its memory or its region, and the faults that the simulator finds in them."""

from __future__ import annotations

import numpy as np

from tests.generators import one_instruction_program, random_instruction
from tests.test_simulator_equals_rtl import Job, job
from tilewright.isa.machine.encoding import FieldKind
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault, MachineFault
from tilewright.simulator.values import simulate_values

REPLACED = (FieldKind.BASE, FieldKind.STRIDE, FieldKind.REGION)
"""The kinds of the fields that get any value."""


def bad_accesses(machine: Machine, count: int, rng: np.random.Generator) -> tuple[list[Job], list[Fault]]:
    """So many of them, of all formats in turn: a valid instruction, of which one field is replaced."""
    formats, jobs, faults = list(machine.formats.values()), [], []
    while len(jobs) < count:
        instruction = random_instruction(machine, formats[len(jobs) % len(formats)], rng)
        field = rng.choice([f for f in instruction.format.fields if f.kind in REPLACED])
        bad = instruction.replace({field.name: int(rng.integers(field.low, field.high, endpoint=True))})
        of_bad = job(one_instruction_program(machine, bad)[0], rng)
        try:
            simulate_values(*of_bad)
        except MachineFault as error:
            jobs.append(of_bad)
            faults.append(error.fault)
    return jobs, faults
