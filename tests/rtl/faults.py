"""Hardware broken on purpose, one net at a time: what a proof must see."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import z3

from tilewright.rtl.proof.netlist import NetlistRun, SymbolicNetlist
from tilewright.rtl.proof.result import Goal, Subject, refute


def unseen(subject: Subject, registers: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """The goals that hold whichever of the faults the hardware has, so that nothing shows that they can fail.

    A fault is a register that takes the inverse of each new value, a net that is seen inverted, or no reset.
    """
    left = {name for name, _ in goals_of(subject, subject.hardware)}
    for hardware in faulty(subject.hardware, registers, outputs):
        asked = [(name, goal) for name, goal in goals_of(subject, hardware) if name in left]
        left -= {name for name, goal in asked if refute(goal)}
        if not left:
            break
    return sorted(left)


def failed_goals(subject: Subject, claim: str = "") -> list[str]:
    """The goals that are false, of the claims that begin so."""
    return [name for name, goal in goals_of(subject, subject.hardware) if name.startswith(claim) and refute(goal)]


def goals_of(subject: Subject, hardware: SymbolicNetlist) -> list[tuple[str, Goal]]:
    run = NetlistRun(hardware)
    return [(f"{claim.what}: {goal.name}", goal) for claim in subject.claims for goal in claim.goals(run)]


def faulty(of: SymbolicNetlist, registers: Sequence[str], outputs: Sequence[str]) -> Iterator[SymbolicNetlist]:
    yield dataclasses.replace(of, initial=z3.BoolVal(True))
    for net in outputs:
        yield dataclasses.replace(of, nets={**of.nets, net: ~of.nets[net]})
    for net in registers:
        register = register_of(of, net)
        assert register is not None, f"{net} is not a register"
        value = of.after[register]
        yield dataclasses.replace(of, after={**of.after, register: z3.Not(value) if z3.is_bool(value) else ~value})


def register_of(of: SymbolicNetlist, net: str) -> z3.ExprRef:
    term = of.nets[net]
    return term if term.num_args() == 0 else term.arg(0)  # a truth value is If(register, 1, 0)


def walker_faults(of: SymbolicNetlist, prefix: str) -> tuple[list[str], list[str]]:
    """Registers and outputs to break in the walker whose nets are called `prefix` and their names."""
    names = [name.removeprefix(prefix) for name in of.nets if name.startswith(prefix)]
    registers = [name for name in names if re.fullmatch(r"(remaining|last_index|is_last|\w+_origin)_\d+", name)]
    outputs = [
        name for name in names if re.fullmatch(r"last|fault|fault_address|address_\w+|is_(first|last)_[a-z]+", name)
    ]
    return [prefix + name for name in registers], [prefix + name for name in outputs]
