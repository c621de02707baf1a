"""What lowering knows of a machine's instructions, read off their statements: words that lie together, sums."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.machine.products import adds_product
from tilewright.isa.templates.systolic import systolic_activations


def vector_blocks(machine: Machine) -> int:
    """Words of one pixel that the machine's matrix product takes in one access; 1 if it has none."""
    return max((systolic_activations(format).block for format in _products(machine)), default=1)


def adds_to_sums(machine: Machine) -> bool:
    """Whether every matrix product of the machine can add to sums that are there, and so several make one sum."""
    return all(format.mnemonic in machine.continuing for format in _products(machine))


def adds_scaled(machine: Machine) -> bool:
    """Whether the machine has a matrix product, and an instruction that adds two tensors with a scale each."""
    return bool(_products(machine)) and any(
        node.op is Op.ROUND_SHIFT and _is_scaled_sum(node.args[0])
        for format in machine.formats.values()
        for node in walk(format.statement.expr)
    )


def _is_scaled_sum(expr: Expr) -> bool:
    """Whether an expression adds products with two sources."""
    if expr.op is not Op.ADD or any(arg.op is not Op.MUL for arg in expr.args):
        return False
    return all(any(node.op is Op.SOURCE for node in walk(arg)) for arg in expr.args)


def _products(machine: Machine) -> list[InstructionFormat]:
    formats = [format for format in machine.formats.values() if format.statement.dot is not None]
    return [format for format in formats if adds_product(format) is None]


def longest_buffer(memory: Memory, alignment: int) -> int:
    """The largest buffer of aligned groups that is sure to find a place: no group may lie across two banks."""
    if memory.stretches == 1 or memory.stretch_words % alignment == 0:
        return memory.depth
    return max(0, memory.stretch_words - alignment + 1) // alignment * alignment
