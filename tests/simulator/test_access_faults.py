"""Faults found before a run against those that the interpreter meets, on instructions with broken fields."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generators import LIMITS, program_of, random_instruction, random_state
from tests.rings import slow_beyond
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import FieldKind, Instruction, InstructionFormat, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.faults import Fault, FaultCode, MachineFault
from tilewright.isa.program.program import place_regions
from tilewright.simulator.access_faults import access_fault
from tilewright.simulator.interpreter import interpret_instruction
from tilewright.simulator.regions import regions_of


@pytest.mark.parametrize("name", slow_beyond(2, ["base16", "vector-only", "tiny8", "rect"]))
def test_equals_the_interpreter(name: str) -> None:
    machine = load_machine(name)
    regions = regions_of(program_of(machine, ()), place_regions(LIMITS))
    found = []
    for of in machine.formats.values():
        for seed in range(25):
            rng = np.random.default_rng(seed)
            instruction = broken(machine, of, rng)
            state = random_state(machine, rng)
            expected = None
            try:
                interpret_instruction(machine, instruction, state, regions, 3)
            except MachineFault as raised:
                expected = raised.fault
            found.append(access_fault(machine, instruction, regions, 3))
            assert found[-1] == expected, f"{of.mnemonic}, seed {seed}"
    codes = {fault.code for fault in found if fault is not None}
    assert codes == {FaultCode.ADDRESS, FaultCode.REGION}


def broken(machine: Machine, of: InstructionFormat, rng: np.random.Generator) -> Instruction:
    """A good instruction with some bases near an end of their memory, or any of its fields drawn anew."""
    good = random_instruction(machine, of, rng, max_iterations=30)
    changes: dict[str, int] = {}
    for operand in of.operands:
        if rng.random() < 0.6:
            end = LIMITS["inputs"] if operand.memory == DRAM else machine.memories[operand.memory].depth
            base = int(rng.choice([0, end])) + int(rng.integers(-40, 40))
            changes[f"{operand.name}.base"] = min(max(base, 0), of.field(f"{operand.name}.base").high)
    if rng.random() < 0.3:
        places = [f for f in of.fields if f.kind in (FieldKind.BASE, FieldKind.STRIDE, FieldKind.REGION)]
        field = places[int(rng.integers(len(places)))]
        changes[field.name] = int(rng.integers(field.low, field.high, endpoint=True))
    return good.replace(changes)


def test_finds_the_first_fault_of_a_nest_too_large_to_walk() -> None:
    machine = load_machine("base16")
    of = machine.format("copy")
    fields = {"trip.i": 1024, "trip.j": 1024, "trip.k": 1024, "a.i": 16, "a.base": 1, "y.base": 2}
    regions = regions_of(program_of(machine, ()), place_regions(LIMITS))
    assert access_fault(machine, make_instruction(of, fields), regions, 0) is None
    # i = 64 ends at 1 + 64·16 + 1023·15 = 16370, inside 16384 words; i = 65 at 16386, with its last j.
    beyond = make_instruction(of, {**fields, "a.j": 15})
    assert access_fault(machine, beyond, regions, 0) == Fault(FaultCode.ADDRESS, 0, 16386)
