"""The vectors that go through the machine's matrix product, found by form: a statement with a dot product."""

from __future__ import annotations

from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine


def vector_blocks(machine: Machine) -> int:
    """Words of one pixel that the machine's matrix product takes in one access; 1 if it has none."""
    return max((_vector_block(of) for of in machine.formats.values()), default=1)


def _vector_block(of: InstructionFormat) -> int:
    dot = next((node for node in walk(of.statement.expr) if node.op is Op.DOT), None)
    return of.operand(dot.args[0].name).block if dot is not None else 1
