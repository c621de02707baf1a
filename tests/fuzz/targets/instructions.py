"""Programs with fields of their instructions changed, and instructions left out, doubled or exchanged.

The checker refuses them or they run; simulator and interpreter agree in either case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.fuzz.executors import judge, require_identities
from tests.fuzz.harness import Outcome, Target
from tests.fuzz.valid_programs import NAMES, prepare_programs, valid_program
from tilewright.isa.machine.encoding import FieldKind, Instruction, InstructionField
from tilewright.isa.program.program import Program

MOST_TRIPS = 24
"""The longest loop that is drawn: how much work a program may ask for is another question."""

Change = tuple[int, str, int]

LEAVE_OUT, DOUBLE, EXCHANGE = "leave out", "double", "exchange with the next"


@dataclass(frozen=True)
class ChangedProgram:
    """A valid program; changes are (instruction, field, value) or (instruction, what happens to it, 0)."""

    program: str
    changes: tuple[Change, ...]
    seed: int = 0

    def made(self) -> Program:
        valid = valid_program(self.program)
        instructions = changed_instructions(valid.instructions, self.changes)
        layers = valid.layers[:1] and (replace(valid.layers[0], first_instruction=0),)
        provenance = (0,) * len(instructions) if layers else ()
        return replace(valid, instructions=instructions, layers=layers, provenance=provenance)


def changed_instructions(valid: Sequence[Instruction], changes: Sequence[Change]) -> tuple[Instruction, ...]:
    """Instructions with fields replaced (where the value fits), left out, doubled or exchanged."""
    instructions = list(valid)
    for position, what, value in changes:
        at = position % len(instructions)
        if what == DOUBLE:
            instructions.insert(at, instructions[at])
        elif what == LEAVE_OUT and len(instructions) > 1:
            del instructions[at]
        elif what == EXCHANGE and at:
            instructions[at - 1], instructions[at] = instructions[at], instructions[at - 1]
        elif any(field.name == what and field.low <= value <= field.high for field in instructions[at].format.fields):
            instructions[at] = instructions[at].replace({what: value})
    return tuple(instructions)


@strategies.composite
def changed_programs(draw: DrawFn) -> ChangedProgram:
    name = draw(strategies.sampled_from(NAMES))
    changes = draw(strategies.lists(changes_of(valid_program(name)), max_size=4))
    return ChangedProgram(name, tuple(changes), draw(strategies.integers(0, 99)))


@strategies.composite
def changes_of(draw: DrawFn, program: Program) -> Change:
    """A change of an instruction; a third of them of its waits, without which the engines' order is free."""
    at = draw(strategies.integers(0, len(program.instructions) - 1))
    if not draw(strategies.integers(0, 9)):
        return at, draw(strategies.sampled_from([LEAVE_OUT, DOUBLE, EXCHANGE])), 0
    instruction = program.instructions[at]
    fields = [field for field in instruction.format.fields if field.kind is not FieldKind.OPCODE]
    waits = [field for field in fields if field.kind is FieldKind.WAIT and instruction[field.name]]
    field = draw(strategies.sampled_from(waits if waits and not draw(strategies.integers(0, 2)) else fields))
    return at, field.name, draw(_values(field, instruction[field.name]))


def _values(field: InstructionField, present: int) -> SearchStrategy[int]:
    high = min(field.high, MOST_TRIPS) if field.kind is FieldKind.TRIP else field.high
    near = [present + step for step in (-8, -1, 1, 2, 16)] + [-present, 0, field.low, high, high // 2]
    held = sorted({value for value in near if field.low <= value <= high})
    return strategies.one_of(strategies.sampled_from(held), strategies.integers(field.low, high))


def attempt(changed: ChangedProgram) -> Outcome:
    program = changed.made()
    outcome = judge(program, np.random.default_rng(changed.seed), "instructions")
    if outcome is Outcome.RIGHT:
        require_identities(program, "instructions")
    return outcome


TARGET = Target("instructions in programs", changed_programs(), attempt, prepare=prepare_programs)
