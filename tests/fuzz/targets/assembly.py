"""Assembly texts: disassembled programs with tokens and lines changed.

What assembles comes back from its disassembly, and is judged like any program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.fuzz.executors import judge, require_identities
from tests.fuzz.harness import Outcome, Target
from tests.fuzz.valid_programs import NAMES, prepare_programs, valid_program
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.errors import IsaError

TOKEN = re.compile(r"\s+|\w+|[^\w\s]")

OTHERS = [
    *(str(number) for number in (-1, 0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 0x40, 100)),
    *"=,;()[].:#-'\"", "", " ", "\n", "x", "0x", "1e3", "0x1F", "nan", "inf", "-0.5", "0.1", "int8", "float32", "ü",
    "\0", "wait(load=1)", "loops(k=2)", "d=outputs[0]", "nodes(a)", "macs=1", ".output", ".workspace", "accumulate",
]  # fmt: skip


@dataclass(frozen=True)
class ChangedText:
    """A valid program's text; changes are (line, token, new text), or (line, -1, number of the line in its place)."""

    program: str
    changes: tuple[tuple[int, int, str], ...]
    seed: int = 0

    @property
    def text(self) -> str:
        lines = list(_lines(self.program))
        for line, token, new in self.changes:
            if token < 0:
                lines[line] = lines[int(new)]
            else:
                tokens = TOKEN.findall(lines[line])
                lines[line] = "".join([*tokens[:token], new, *tokens[token + 1 :]])
        return "\n".join(lines)


@cache
def _lines(name: str) -> tuple[str, ...]:
    """The program's text, with at most a few lines of data."""
    lines = disassemble(valid_program(name)).split("\n")
    return tuple(lines)


@cache
def _lines_to_change(name: str) -> tuple[int, ...]:
    """Numbers of lines; those of data are many, and few of them do."""
    lines = _lines(name)
    data = [number for number, line in enumerate(lines) if line.startswith((".int8", ".int32", ".int16"))]
    return tuple(number for number in range(len(lines)) if number not in data[3:])


@strategies.composite
def changed_texts(draw: DrawFn) -> ChangedText:
    name = draw(strategies.sampled_from(NAMES))
    numbers, lines = _lines_to_change(name), _lines(name)
    changes = []
    for _ in range(draw(strategies.integers(0, 4))):
        line = draw(strategies.sampled_from(numbers))
        tokens = TOKEN.findall(lines[line])
        if draw(strategies.integers(0, 7)) and tokens:
            others = strategies.one_of(strategies.sampled_from(OTHERS), strategies.sampled_from(tokens))
            changes.append((line, draw(strategies.integers(0, len(tokens) - 1)), draw(others)))
        else:
            changes.append((line, -1, str(draw(strategies.sampled_from(numbers)))))
    return ChangedText(name, tuple(changes), draw(strategies.integers(0, 99)))


def attempt(changed: ChangedText) -> Outcome:
    try:
        program = assemble(changed.text, valid_program(changed.program).machine)
    except IsaError:
        return Outcome.REFUSED
    require_identities(program, "assembly")
    return judge(program, np.random.default_rng(changed.seed), "assembly")


TARGET = Target("assembly", changed_texts(), attempt, prepare=prepare_programs)
