"""What lowering knows of a machine's instructions, read off their statements: words that lie together, sums."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory


def vector_blocks(machine: Machine) -> int:
    """Words of one pixel that the machine's matrix product takes in one access; 1 if it has none."""
    return max((_vector_block(format) for format in machine.formats.values()), default=1)


def adds_to_sums(machine: Machine) -> bool:
    """Whether every matrix product of the machine can add to sums that are there, and so several make one sum."""
    return all(format.has_accumulate for format in machine.formats.values() if _has_dot(format))


def adds_scaled(machine: Machine) -> bool:
    """Whether the machine has a matrix product, and an instruction that adds two tensors with a scale each."""
    formats = machine.formats.values()
    return any(map(_has_dot, formats)) and any(
        node.op is Op.ROUND_SHIFT and _is_scaled_sum(node.args[0])
        for format in formats
        for node in walk(format.statement.expr)
    )


def _is_scaled_sum(expr: Expr) -> bool:
    """Whether an expression adds products with two sources."""
    if expr.op is not Op.ADD or any(arg.op is not Op.MUL for arg in expr.args):
        return False
    return all(any(node.op is Op.SOURCE for node in walk(arg)) for arg in expr.args)


def _has_dot(format: InstructionFormat) -> bool:
    return any(node.op is Op.DOT for node in walk(format.statement.expr))


def _vector_block(format: InstructionFormat) -> int:
    dot = next((node for node in walk(format.statement.expr) if node.op is Op.DOT), None)
    return format.operand(dot.args[0].name).block if dot is not None else 1


def longest_buffer(memory: Memory, alignment: int) -> int:
    """The largest buffer of aligned groups that is sure to find a place: no group may lie across two banks."""
    if memory.banks == 1 or memory.bank_depth % alignment == 0:
        return memory.depth
    return max(0, memory.bank_depth - alignment + 1) // alignment * alignment
