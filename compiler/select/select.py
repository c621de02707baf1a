"""Instruction selection: the cheapest cover of every nest of a program."""

from __future__ import annotations

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.isa.machine.machine import Machine


def select(program: NestProgram, machine: Machine, blame: Blame = RAISING, session: Session | None = None) -> Selection:
    """Cover every nest; raises CompileError for the first that no instructions cover.

    If `blame` collects, what comes back is complete only when it found nothing.
    """
    selector = Selector(machine, program, session)
    covers = []
    for nest in program.nests:
        with blame.on(nest.nodes):
            covers.append(selector.cover(nest))
    return Selection(machine, program, tuple(covers))
