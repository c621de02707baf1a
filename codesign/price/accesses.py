"""What instructions ask of the memories: words read and written, elements looked up."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codesign.templates.facet import Accesses
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine


def accesses(machine: Machine, instructions: Iterable[Instruction]) -> Accesses:
    """What a run of the instructions does; it does not depend on data."""
    total = Accesses.none()
    for instruction in instructions:
        total += facet_of(instruction.engine.template).accesses(machine, instruction)
    return total
