"""How a machine adds up sums of blocks of weights, each times its block's scale, read off its statements.

The form is `wrap(sum(a * w), acc)` of a vector instruction: `a` is read from the memory that the array's sums are in,
`w` from another one, and the result goes where `a` is from.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.lower.pieces_format import SumsMemory, sums_memory
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """The type of a block's scale, and the memory of sums.

    `most` is how large a sum with its bias may be, for all instructions that make something else of it.
    """

    scale: IntegerType
    memory: SumsMemory
    most: int


def block_format(machine: Machine) -> BlockFormat | None:
    """The format of the machine's first instruction of this form; None if it has none."""
    homes = {format.destination.memory for format in formats_with(machine, Role.MULTIPLIES)}
    for format in formats_with(machine, Role.COMPUTES):
        scale = _scale(format, homes)
        if scale is not None:
            memory = sums_memory(machine, format.destination.memory)
            return BlockFormat(scale, memory, _most(machine, format.statement.expr.range.high))
    return None


def _scale(format: InstructionFormat, homes: set[str]) -> IntegerType | None:
    """The type of the factor that is not a sum, if the statement has the form."""
    product = _summed(format.statement.expr)
    if product is None or product.op is not Op.MUL or any(leaf.op is not Op.SOURCE for leaf in product.args):
        return None
    sums, scales = (format.operand(leaf.name) for leaf in product.args)
    return scales.element.type if sums.memory == format.destination.memory in homes - {scales.memory} else None


def _most(machine: Machine, held: int) -> int:
    """The least of `held` and of what `wrap(a + p.bias, …)` leaves of a sum and its bias, wherever that is."""
    sums = (
        node
        for format in formats_with(machine, Role.COMPUTES)
        for node in walk(format.statement.expr)
        if node.op is Op.WRAP and node.args[0].op is Op.ADD
    )
    with_bias = (node for node in sums if any(leaf.op is Op.SOURCE and leaf.field for leaf in node.args[0].args))
    return min([held, *(node.range.high for node in with_bias)])


def _summed(expr: Expr) -> Expr | None:
    """x of `wrap(sum(x))`."""
    if expr.op is not Op.WRAP or expr.args[0].op is not Op.SUM:
        return None
    return expr.args[0].args[0]
